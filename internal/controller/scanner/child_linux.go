package scanner

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Access to files that Landlock rules grant.
const (
	readFile = unix.LANDLOCK_ACCESS_FS_READ_FILE
	readTree = readFile | unix.LANDLOCK_ACCESS_FS_READ_DIR
	// writeTree is everything that creates, changes and deletes files, directories and links; no devices, sockets or pipes.
	writeTree = readTree | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REFER
	// ofFiles is the part of an access that a rule for a file, which is no directory, may grant.
	ofFiles = readFile | unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
)

// handled is, by ABI of Landlock less one, the access to files that is denied unless a rule grants it: all that this ABI knows.
var handled = [...]uint64{
	1<<13 - 1, // EXECUTE to MAKE_SYM
	1<<14 - 1, // REFER
	1<<15 - 1, // TRUNCATE
	1<<15 - 1,
	1<<16 - 1, // IOCTL_DEV
}

// scopedSince is the ABI from which signals and abstract sockets are confined too. Version 6 has that, but the threads of one process
// could not signal each other, as the Go runtime does.
const scopedSince = 7

// hideMemory keeps other processes of the same user from reading the memory, environment and open files of this one in /proc, and
// from tracing it.
func hideMemory() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("set the process non-dumpable: %w", err)
	}
	return nil
}

// landlockABI returns the version of Landlock that the kernel has, at least 1.
func landlockABI() (int, error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, fmt.Errorf("the kernel has no Landlock: %w", errno)
	}
	return int(abi), nil
}

// canConfine says why runBound cannot limit which files a child opens.
func canConfine() error {
	_, err := landlockABI()
	return err
}

// runBound runs a child that the kernel kills when this process ends, however that happens: a child that outlives a killed
// manager would go on beside those of the next one. With Landlock the child opens nothing but reachable files, and neither traces
// nor signals processes other than its own. It cannot have more memory than this many bytes, apart from files: its runtime ends it then.
func runBound(cmd *exec.Cmd, files reachable, memory int64) error {
	ended := make(chan error, 1)
	go func() {
		// The signal is sent when the thread that started the child ends, so that it must stay until the child has ended. The child
		// inherits what the thread is confined to. That cannot be undone: the thread is never unlocked, and ends with its goroutine.
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The main thread stands for the whole process: confined, it would be open to what is confined alike. While it is locked here,
			// another thread is taken.
			defer runtime.UnlockOSThread()
			ended <- runBound(cmd, files, memory)
			return
		}
		if abi, err := landlockABI(); err == nil {
			if err := confineThread(abi, files); err != nil {
				ended <- err
				return
			}
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			ended <- err
			return
		}
		// A kernel that runs out of memory may kill all processes of a container together.
		most := unix.Rlimit{Cur: uint64(memory), Max: uint64(memory)}
		if err := unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_DATA, &most, nil); err != nil {
			_ = cmd.Process.Kill()
			ended <- errors.Join(fmt.Errorf("limit the memory of the child: %w", err), cmd.Wait())
			return
		}
		// Where the kernel chooses a process to kill, it is not the manager. Without the right to write it, the kernel decides.
		// This thread may be confined to files of the child; other threads are not.
		written := make(chan struct{})
		go func() {
			defer close(written)
			_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", cmd.Process.Pid), []byte("1000"), 0) //nolint:gosec // the path has nothing but a number
		}()
		<-written
		ended <- cmd.Wait()
	}()
	return <-ended
}

// confineThread confines this thread, and the processes that it starts, to files.
func confineThread(abi int, files reachable) error {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: handled[min(abi, len(handled))-1]}
	if abi >= scopedSince {
		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	}
	//nolint:gosec // the kernel reads attr during the call
	ruleset, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return fmt.Errorf("create a Landlock ruleset: %w", errno)
	}
	defer func() { _ = unix.Close(int(ruleset)) }()
	for access, paths := range map[uint64][]string{
		readTree | unix.LANDLOCK_ACCESS_FS_EXECUTE: files.execute,
		readTree: files.read,
		readFile | unix.LANDLOCK_ACCESS_FS_WRITE_FILE: {os.DevNull},
		writeTree: {files.scratch},
	} {
		for _, path := range paths {
			if err := allow(int(ruleset), path, access&attr.Handled_access_fs); err != nil {
				return err
			}
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("deny new privileges: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0); errno != 0 {
		return fmt.Errorf("enforce the Landlock ruleset: %w", errno)
	}
	return nil
}

// allow grants access to a file, or to a directory and all below it. What does not exist needs no rule.
func allow(ruleset int, path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return fmt.Errorf("stat %s: %w", path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= ofFiles
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	//nolint:gosec // the kernel reads rule during the call
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("allow access to %s: %w", path, errno)
	}
	return nil
}
