package lsp

import (
	"encoding/json"
	"sync"

	"github.com/creachadair/jrpc2"
)

// answered is a channel whose end comes after the answers to all that came before it. jrpc2
// drops requests that it has read when its input ends, so that `[1]` from a pipe had no answer.
type answered struct {
	*frames

	mu      sync.Mutex
	changed sync.Cond
	waiting int // answers that are not sent yet
	closed  bool
}

func newAnswered(f *frames) *answered {
	a := &answered{frames: f}
	a.changed.L = &a.mu
	return a
}

// Recv reads a message. It returns an error once all messages before it are answered.
func (a *answered) Recv() ([]byte, error) {
	msg, err := a.frames.Recv()
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil && asks(msg) {
		a.waiting++
	}
	for err != nil && a.waiting > 0 && !a.closed {
		a.changed.Wait()
	}
	return msg, err
}

// Send writes a message, which is an answer if it has no method.
func (a *answered) Send(msg []byte) error {
	err := a.frames.Send(msg)
	var m struct {
		Method *json.RawMessage `json:"method"`
	}
	if json.Unmarshal(msg, &m) != nil || m.Method == nil { // a batch has only answers
		a.mu.Lock()
		a.waiting--
		a.mu.Unlock()
		a.changed.Broadcast()
	}
	return err
}

// Close closes the frames, and ends a Recv that waits for answers.
func (a *answered) Close() error {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.changed.Broadcast()
	return a.frames.Close()
}

// asks reports whether a message has an answer, by section 4 to 6 of the specification
// (https://www.jsonrpc.org/specification): every request, and what is none. Only
// notifications have no answer.
func asks(msg []byte) bool {
	list, err := jrpc2.ParseRequests(msg)
	for _, r := range list {
		if r.ID != "" || r.Error != nil || r.Method == "" {
			return true
		}
	}
	return err != nil || len(list) == 0
}
