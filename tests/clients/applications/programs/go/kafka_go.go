// A consumer and a producer on segmentio/kafka-go, as its README has them: DOES HOST:PORT TOPIC NAME...
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/segmentio/kafka-go"
)

func failed(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func main() {
	does, brokers, topic, names := os.Args[1], os.Args[2:3], os.Args[3], os.Args[4:]
	if does == "produces" {
		writer := kafka.NewWriter(kafka.WriterConfig{Brokers: brokers, Topic: topic})
		messages := []kafka.Message{}
		for _, name := range names {
			messages = append(messages, kafka.Message{Value: []byte(name)})
		}
		failed(writer.WriteMessages(context.Background(), messages...))
		failed(writer.Close())
		return
	}
	said := kafka.LoggerFunc(func(format string, more ...interface{}) {
		fmt.Fprintf(os.Stderr, format+"\n", more...)
	})
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: brokers, GroupID: topic, Topic: topic, StartOffset: kafka.FirstOffset, ErrorLogger: said,
	})
	for range names {
		message, err := reader.ReadMessage(context.Background())
		failed(err)
		fmt.Println(string(message.Value))
	}
	failed(reader.Close())
}
