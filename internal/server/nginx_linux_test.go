package server_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// nginx is a running reverse proxy that terminates TLS.
type nginx struct {
	// address is where it listens.
	address string
	log     string
}

// nginxConfig is a configuration of nginx. It passes /scanner/ on to the operator, and belongs to another program otherwise.
const nginxConfig = `
USER
daemon off;
worker_processes 1;
pid DIR/pid;
error_log DIR/error.log notice;
events {}
http {
	access_log off;
	client_body_temp_path DIR/body;
	proxy_temp_path DIR/proxy;
	fastcgi_temp_path DIR/fastcgi;
	uwsgi_temp_path DIR/uwsgi;
	scgi_temp_path DIR/scgi;

	upstream operator {
		server OPERATOR;
		keepalive 4;
	}
	map $http_upgrade $connection_upgrade {
		default upgrade;
		"" "";
	}
	map $request_uri $without_base_path {
		~^/scanner(?<path>/.*)$ $path;
		default $request_uri;
	}
	server {
		listen ADDRESS ssl;
		server_name scanner.example;
		ssl_certificate DIR/tls.crt;
		ssl_certificate_key DIR/tls.key;
		location / {
			return 404 "another program";
		}
		location /scanner/ {
			proxy_pass TARGET;
			proxy_http_version 1.1;
			proxy_ssl_protocols TLSv1.3;
			proxy_ssl_verify on;
			proxy_ssl_trusted_certificate DIR/tls.crt;
			proxy_ssl_name scanner.example;
			proxy_set_header Upgrade $http_upgrade;
			proxy_set_header Connection $connection_upgrade;
			client_max_body_size 32m;
			HEADERS
		}
	}
}
`

// startNginx starts Debian's nginx in front of an operator, which serves TLS with the certificate of the test, until the end of the test.
func startNginx(t *testing.T, operator string, p proxy) *nginx {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/nginx")
	}
	if err != nil {
		const missing = "nginx is not installed: the Debian package nginx has it (hack/setup.sh installs it)"
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	certificate, key := servingCertificate(t)
	// nginx takes over the socket, as it does when it replaces its program: the port is never free, and connections wait until it is ready.
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	tcp, ok := listener.(*net.TCPListener)
	if !ok {
		t.Fatalf("%T is no TCP listener", listener)
	}
	socket, err := tcp.File()
	if err != nil {
		t.Fatal(err)
	}
	dir, target := t.TempDir(), p.scheme+"://operator"
	if p.removes {
		target += "$without_base_path"
	}
	user := ""
	if os.Getuid() == 0 {
		user = "user root;" // whose directory it is
	}
	values := strings.NewReplacer("USER", user, "DIR", dir, "ADDRESS", address, "OPERATOR", operator, "TARGET", target, "HEADERS", strings.Join(p.headers, "\n"))
	for name, content := range map[string]string{"nginx.conf": values.Replace(nginxConfig), "tls.crt": string(certificate), "tls.key": string(key)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n := &nginx{address: address, log: filepath.Join(dir, "error.log")}
	command := exec.Command(program, "-p", dir, "-c", filepath.Join(dir, "nginx.conf"), "-e", n.log)
	command.ExtraFiles, command.Env = []*os.File{socket}, []string{"NGINX=3;"}
	// It ends with the test, also when that is killed. The signal is sent when the thread that started it ends, so the thread has to stay.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	started, ended := make(chan error), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			ended <- command.Wait()
		}
	}()
	err = <-started
	_, _ = socket.Close(), listener.Close() // nginx has its own
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM) // It may have ended.
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("nginx: %v\n%s", err, n)
			}
		case <-time.After(patience):
			_ = command.Process.Kill()
			t.Errorf("nginx did not end: %v", <-ended)
		}
		if t.Failed() {
			t.Log(n)
		}
	})
	return n
}

// String is the log.
func (n *nginx) String() string {
	content, err := os.ReadFile(n.log)
	if err != nil {
		return fmt.Sprintf("the log of nginx: %v", err)
	}
	return string(content)
}
