// kafka-go: a Reader for each partition, or one in a group. Fields that came later are set by name.
// It cannot tell null from empty.
package main

import (
	"context"
	"reflect"
	"strings"
	"time"

	kafka "github.com/segmentio/kafka-go"
	_ "github.com/segmentio/kafka-go/gzip"
	_ "github.com/segmentio/kafka-go/lz4"
	_ "github.com/segmentio/kafka-go/snappy"
)

const first = -2 // the first offset of a partition, from 0.2 on

func main() {
	o := asked()
	vague = true
	readAll(o, func(r *reading) error {
		config := kafka.ReaderConfig{
			Brokers:  strings.Split(o.values["bootstrap"], ","),
			Topic:    r.name,
			MinBytes: 1,
			MaxBytes: 4 << 20,
			MaxWait:  100 * time.Millisecond,
		}
		if o.values["mode"] == "group" {
			config.GroupID = o.group()
			start := reflect.ValueOf(&config).Elem().FieldByName("StartOffset")
			if start.IsValid() {
				start.SetInt(first)
			}
			return read(r, config)
		}
		failed := make(chan error, r.partitions)
		for p := 0; p < r.partitions; p++ {
			config.Partition = p
			go func(config kafka.ReaderConfig) { failed <- read(r, config) }(config)
		}
		for p := 0; p < r.partitions; p++ {
			if err := <-failed; err != nil {
				return err
			}
		}
		return nil
	})
}

func read(r *reading, config kafka.ReaderConfig) error {
	reader := kafka.NewReader(config)
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() {
		for {
			message, err := reader.ReadMessage(ctx)
			if err != nil {
				if ctx.Err() == nil {
					r.fail(err)
				}
				stopped <- nil
				return
			}
			r.record(message.Partition, message.Offset, message.Key, message.Value, message.Time,
				"", headersOf(message))
		}
	}()
	err := r.done()
	cancel()
	select {
	case <-stopped:
	case <-time.After(time.Second):
	}
	closed := make(chan bool)
	go func() { reader.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(2 * time.Second):
	}
	return err
}

func headersOf(message kafka.Message) []header {
	field := reflect.ValueOf(message).FieldByName("Headers")
	if !field.IsValid() {
		return nil
	}
	headers := make([]header, 0)
	for i := 0; i < field.Len(); i++ {
		each := field.Index(i)
		if each.FieldByName("Value").Len() == 0 {
			return nil
		}
		headers = append(headers,
			header{each.FieldByName("Key").String(), each.FieldByName("Value").Bytes()})
	}
	return headers
}
