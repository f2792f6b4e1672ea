// Sarama: its consumer with given partitions, and its consumer group.
package main

import (
	"context"
	"strings"
	"time"

	sarama "github.com/Shopify/sarama"
)

func main() {
	o := asked()
	version, err := sarama.ParseKafkaVersion(o.values["pin"])
	if err != nil {
		panic(err)
	}
	config := sarama.NewConfig()
	config.Version = version
	config.Consumer.Return.Errors = true
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	config.Consumer.Fetch.Default = 4 << 20
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	brokers := strings.Split(o.values["bootstrap"], ",")
	readAll(o, func(r *reading) error {
		if o.values["mode"] == "group" {
			return grouped(r, brokers, o.group(), config)
		}
		return assigned(r, brokers, config)
	})
}

func assigned(r *reading, brokers []string, config *sarama.Config) error {
	consumer, err := sarama.NewConsumer(brokers, config)
	if err != nil {
		return err
	}
	defer within(2*time.Second, func() { consumer.Close() })
	for p := 0; p < r.partitions; p++ {
		partition, err := consumer.ConsumePartition(r.name, int32(p), sarama.OffsetOldest)
		if err != nil {
			return err
		}
		defer within(2*time.Second, func() { partition.Close() })
		go func() {
			for message := range partition.Messages() {
				told(r, message)
			}
		}()
		go func() {
			for err := range partition.Errors() {
				r.fail(err)
			}
		}()
	}
	return r.done()
}

func grouped(r *reading, brokers []string, name string, config *sarama.Config) error {
	group, err := sarama.NewConsumerGroup(brokers, name, config)
	if err != nil {
		return err
	}
	defer within(2*time.Second, func() { group.Close() })
	go func() {
		for err := range group.Errors() {
			r.fail(err)
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if err := group.Consume(ctx, []string{r.name}, member{r}); err != nil {
				r.fail(err)
				return
			}
		}
	}()
	return r.done()
}

type member struct{ r *reading }

func (member) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (member) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (m member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		told(m.r, message)
		session.MarkMessage(message, "")
	}
	return nil
}

func told(r *reading, m *sarama.ConsumerMessage) {
	headers := make([]header, 0)
	for _, each := range m.Headers {
		headers = append(headers, header{string(each.Key), each.Value})
	}
	r.record(int(m.Partition), m.Offset, m.Key, m.Value, m.Timestamp, "", headers)
}

// At most so long for what may never come back, such as closing.
func within(limit time.Duration, what func()) {
	done := make(chan bool)
	go func() {
		what()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(limit):
	}
}
