// no-kafka: Producer, and SimpleConsumer from the first record on.
'use strict'

const Kafka = require('no-kafka')
const [does, connectionString, topic, , ...names] = process.argv.slice(2)

async function produce() {
  const producer = new Kafka.Producer({ connectionString, retries: { attempts: 2 } })
  await producer.init()
  const messages = names.map((value) => ({ topic, partition: 0, message: { value } }))
  for (const result of await producer.send(messages)) {
    if (result.error) throw result.error
  }
  await producer.end()
}

async function consume() {
  const consumer = new Kafka.SimpleConsumer({ connectionString })
  let left = names.length
  await consumer.init()
  await consumer.subscribe(topic, 0, { time: Kafka.EARLIEST_OFFSET }, (messages) => {
    for (const { message } of messages) {
      console.log(message.value.toString())
      left--
    }
    if (left === 0) process.exit(0)
  })
}

const end = does === 'produces' ? produce().then(() => process.exit(0)) : consume()
end.catch((error) => {
  console.error(`failed: ${error.message || error.code || error}`)
  process.exit(1)
})
