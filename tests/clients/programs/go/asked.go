// What every program is asked, and how it says what it read: python/asked.py has the same.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const grace = 250 * time.Millisecond

type options struct {
	values map[string]string
	topics []string
	wait   time.Duration
}

type reading struct {
	name              string
	partitions, count int

	lock     sync.Mutex
	seen     int
	wait     time.Duration
	started  time.Time
	complete time.Time
	ended    bool
	failure  error
}

type header struct {
	key   string
	value []byte
}

// Whether the client cannot tell null from empty.
var vague = false

var out = bufio.NewWriterSize(os.Stdout, 1<<16)

func asked() options {
	found := options{values: map[string]string{"wait": "8", "pin": "default", "group": "g"}}
	for i := 1; i+1 < len(os.Args); i += 2 {
		if os.Args[i] == "--topic" {
			found.topics = append(found.topics, os.Args[i+1])
		} else {
			found.values[os.Args[i][2:]] = os.Args[i+1]
		}
	}
	seconds, _ := strconv.ParseFloat(found.values["wait"], 64)
	found.wait = time.Duration(seconds * float64(time.Second))
	return found
}

func (o options) group() string {
	return fmt.Sprintf("%s-%d-%d", o.values["group"], os.Getpid(), time.Now().UnixNano())
}

// Calls read for each topic; nothing outlasts its time by much.
func readAll(o options, read func(*reading) error) {
	for _, topic := range o.topics {
		parts := strings.Split(topic, ":")
		r := &reading{name: parts[0], wait: o.wait, started: time.Now()}
		r.partitions, _ = strconv.Atoi(parts[1])
		r.count, _ = strconv.Atoi(parts[2])
		done := make(chan error, 1)
		go func() {
			defer func() {
				if trouble := recover(); trouble != nil {
					done <- fmt.Errorf("panic: %v", trouble)
				}
			}()
			done <- read(r)
		}()
		select {
		case err := <-done:
			r.end(err)
		case <-time.After(o.wait + 10*time.Second):
			r.end(fmt.Errorf("hangs"))
			os.Exit(3)
		}
	}
	os.Exit(0)
}

func (r *reading) goesOn() bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.failure != nil {
		return false
	}
	if r.seen >= r.count && r.complete.IsZero() {
		r.complete = time.Now()
	}
	if !r.complete.IsZero() {
		return time.Since(r.complete) < grace && r.seen < 2*r.count+10
	}
	return time.Since(r.started) < r.wait
}

// Until it has all, or its time is over.
func (r *reading) done() error {
	for r.goesOn() {
		time.Sleep(20 * time.Millisecond)
	}
	return r.failure
}

func (r *reading) fail(err error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.failure == nil {
		r.failure = err
	}
}

// Without a timestamp where it is zero, and without headers where they are unknown (nil).
func (r *reading) record(partition int, offset int64, key, value []byte, at time.Time, kind string, headers []header) {
	line := map[string]any{"topic": r.name, "p": partition, "o": offset}
	if len(key) > 0 || !vague {
		line["k"] = inHex(key)
	}
	if len(value) > 0 || !vague {
		line["v"] = inHex(value)
	}
	if !at.IsZero() && at.UnixMilli() > 0 {
		line["t"] = at.UnixMilli()
	}
	if kind != "" {
		line["tt"] = kind
	}
	if headers != nil {
		pairs := make([][2]any, 0)
		for _, each := range headers {
			pairs = append(pairs, [2]any{each.key, inHex(each.value)})
		}
		line["h"] = pairs
	}
	text, _ := json.Marshal(line)
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.ended {
		return
	}
	r.seen++
	out.Write(append(text, '\n'))
}

func (r *reading) end(err error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	how := "count"
	if err != nil {
		how = err.Error()
	} else if r.seen < r.count {
		how = "time"
	}
	r.ended = true
	text, _ := json.Marshal(map[string]string{"topic": r.name, "end": how})
	out.Write(append(text, '\n'))
	out.Flush()
}

// nil is a null; what is empty is not.
func inHex(data []byte) any {
	if data == nil {
		return nil
	}
	return hex.EncodeToString(data)
}
