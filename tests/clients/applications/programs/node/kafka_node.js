// kafka-node: Producer, and ConsumerGroup from the first record on.
'use strict'

const kafka = require('kafka-node')
const [does, kafkaHost, topic, , ...names] = process.argv.slice(2)

function failed(error) {
  console.error(String((error && error.message) || error))
}

if (does === 'produces') {
  const client = new kafka.KafkaClient({ kafkaHost, connectTimeout: 5000, requestTimeout: 5000 })
  const producer = new kafka.Producer(client)
  client.on('error', failed)
  producer.on('error', failed)
  producer.on('ready', () => {
    producer.send([{ topic, messages: names }], (error) => {
      if (error) failed(error)
      process.exit(error ? 1 : 0)
    })
  })
} else {
  const options = { kafkaHost, groupId: topic, fromOffset: 'earliest' }
  const consumer = new kafka.ConsumerGroup(options, topic)
  let left = names.length
  consumer.on('error', failed)
  consumer.on('message', (message) => {
    console.log(message.value)
    if (--left === 0) consumer.close(() => process.exit(0))
  })
}
