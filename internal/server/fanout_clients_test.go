package server_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// fanOutVariable is the environment variable that makes this program the clients of BenchmarkFanOut: host, port and path of the server.
	// fanOutClients is how many.
	fanOutVariable = "SCANNER_FAN_OUT_URL"
	fanOutClients  = "SCANNER_FAN_OUT_CLIENTS"
	// fanOutMark is in front of the time at which a message was sent, in microseconds.
	fanOutMark = "/at-"
)

// processTime is the CPU time of this process.
func processTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// followAll connects clients and prints, for each message that has reached all of them, how long it took to reach each. It ends when it is
// killed or when a connection ends.
func followAll(url string) error {
	clients, err := strconv.Atoi(os.Getenv(fanOutClients))
	if err != nil {
		return err
	}
	host, path, _ := strings.Cut(url, "/")
	r := &arrivals{clients: clients, took: map[int64][]int64{}}
	ended := make(chan error, clients)
	var dialing errgroup.Group
	dialing.SetLimit(50)
	for range clients {
		dialing.Go(func() error {
			connection, err := upgradeRaw(host, "/"+path)
			if err == nil {
				go func() { ended <- r.follow(connection) }() // Until the process ends.
			}
			return err
		})
	}
	if err := dialing.Wait(); err != nil {
		return err
	}
	fmt.Println("connected")
	return <-ended
}

// upgradeRaw opens a WebSocket. Libraries take more time for a message than the server does.
func upgradeRaw(host, path string) (net.Conn, error) {
	connection, err := net.Dial("tcp", host)
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(connection, "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", path, host)
	if err != nil {
		return nil, err
	}
	var answer []byte
	for one := make([]byte, 1); !bytes.HasSuffix(answer, []byte("\r\n\r\n")); answer = append(answer, one...) {
		if _, err := connection.Read(one); err != nil {
			return nil, err
		}
	}
	if !bytes.HasPrefix(answer, []byte("HTTP/1.1 101 ")) {
		return nil, fmt.Errorf("the server answered %.100q", answer)
	}
	return connection, nil
}

// arrivals collects when messages arrive.
type arrivals struct {
	clients int
	mu      sync.Mutex
	// took has, by the time at which a message was sent, how long it took.
	took map[int64][]int64
}

// follow reads the frames of a connection and answers pings.
func (r *arrivals) follow(connection net.Conn) error {
	pong := []byte{0x8a, 0x80, 0, 0, 0, 0}
	buffer := make([]byte, 2048)
	held := 0
	for {
		n, err := connection.Read(buffer[held:])
		if err != nil {
			return err
		}
		now := time.Now().UnixMicro()
		held += n
		for {
			kind, message, size := frame(buffer[:held])
			if size == 0 {
				break
			}
			switch kind {
			case 1:
				if err := r.arrived(message, now); err != nil {
					return err
				}
			case 8:
				return fmt.Errorf("the server closed: %q", message)
			case 9:
				if _, err := connection.Write(pong); err != nil {
					return err
				}
			}
			held = copy(buffer, buffer[size:held])
		}
		if held == len(buffer) {
			return errors.New("a message is too long")
		}
	}
}

// frame is the first frame of a server in data, of size 0 when it is not there as a whole.
func frame(data []byte) (kind byte, message []byte, size int) {
	if len(data) < 2 {
		return 0, nil, 0
	}
	head, length := 2, int(data[1])
	if length == 126 {
		if len(data) < 4 {
			return 0, nil, 0
		}
		head, length = 4, int(binary.BigEndian.Uint16(data[2:]))
	}
	if len(data) < head+length {
		return 0, nil, 0
	}
	return data[0] & 0x0f, data[head : head+length], head + length
}

// arrived notes a message, and prints all about it when it is the last one of its kind.
func (r *arrivals) arrived(message []byte, now int64) error {
	_, rest, found := bytes.Cut(message, []byte(fanOutMark))
	if !found {
		return nil // It tells a position.
	}
	text, _, _ := bytes.Cut(rest, []byte("@"))
	sent, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took[sent] = append(r.took[sent], now-sent)
	if len(r.took[sent]) < r.clients {
		return nil
	}
	line, err := json.Marshal(r.took[sent])
	if err != nil {
		return err
	}
	delete(r.took, sent)
	_, err = io.WriteString(os.Stdout, string(line)+"\n")
	return err
}
