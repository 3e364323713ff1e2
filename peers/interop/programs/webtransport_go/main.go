// A client and an echo server by webtransport-go, for sessions with ours:
//
//	webtransport_go client URL
//	webtransport_go server CERTIFICATE KEY
//
// The client says "fine" once all it tried went well, and "failed: ..." otherwise. The server says where it listens.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/webtransport-go"
)

var protocols = []string{"echo/2", "echo/1"}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "client" {
		if err := client(os.Args[2]); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		fmt.Println("fine")
		return
	}
	if len(os.Args) == 4 && os.Args[1] == "server" {
		fmt.Println("failed:", serve(os.Args[2], os.Args[3]))
	}
	os.Exit(2)
}

func client(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	transport := webtransport.Transport{
		TLSClientConfig:      &tls.Config{InsecureSkipVerify: true, NextProtos: []string{http3.NextProtoH3}},
		ApplicationProtocols: protocols,
	}
	defer transport.Close()
	_, session, err := transport.Dial(ctx, url, nil)
	if err != nil {
		return fmt.Errorf("no session: %w", err)
	}
	if got := session.SessionState().ApplicationProtocol; got != protocols[0] {
		return fmt.Errorf("the protocol is %q", got)
	}
	payload := make([]byte, 300_000)
	rand.Read(payload)
	both, err := session.OpenStreamSync(ctx)
	if err != nil {
		return fmt.Errorf("no stream: %w", err)
	}
	if err := exchange(both, both, payload); err != nil {
		return fmt.Errorf("a stream both ways: %w", err)
	}
	out, err := session.OpenUniStreamSync(ctx)
	if err != nil {
		return fmt.Errorf("no stream: %w", err)
	}
	go func() {
		out.Write(payload)
		out.Close()
	}()
	in, err := session.AcceptUniStream(ctx)
	if err != nil {
		return fmt.Errorf("no stream of the server: %w", err)
	}
	if got, err := io.ReadAll(in); err != nil || !bytes.Equal(got, payload) {
		return fmt.Errorf("a stream one way: %d bytes, %w", len(got), err)
	}
	if err := session.SendDatagram([]byte("hello")); err != nil {
		return fmt.Errorf("no datagram: %w", err)
	}
	if got, err := session.ReceiveDatagram(ctx); err != nil || string(got) != "/echo hello" {
		return fmt.Errorf("the datagram %q, %w", got, err)
	}
	return session.CloseWithError(7, "that was all")
}

func exchange(out io.WriteCloser, in io.Reader, payload []byte) error {
	go func() {
		out.Write(payload)
		out.Close()
	}()
	got, err := io.ReadAll(in)
	if err == nil && !bytes.Equal(got, payload) {
		err = errors.New("other bytes came back")
	}
	return err
}

func serve(certificateFile, keyFile string) error {
	certificate, err := tls.LoadX509KeyPair(certificateFile, keyFile)
	if err != nil {
		return err
	}
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := webtransport.Server{
		H3: &http3.Server{
			TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{http3.NextProtoH3}},
		},
		ApplicationProtocols: protocols,
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		if session, err := server.Upgrade(w, r); err == nil {
			echo(session)
		}
	})
	server.H3.Handler = mux
	fmt.Println(socket.LocalAddr())
	return server.Serve(socket)
}

// Sends streams and datagrams back; the datagram "end" ends the session.
func echo(session *webtransport.Session) {
	ctx := session.Context()
	go func() {
		for {
			stream, err := session.AcceptStream(ctx)
			if err != nil {
				return
			}
			go func() {
				io.Copy(stream, stream)
				stream.Close()
			}()
		}
	}()
	for {
		datagram, err := session.ReceiveDatagram(ctx)
		if err != nil {
			return
		}
		if string(datagram) == "end" {
			session.CloseWithError(42, "as you say")
			return
		}
		session.SendDatagram(datagram)
	}
}
