// node-rdkafka: HighLevelProducer, and a KafkaConsumer of a group.
'use strict'

const kafka = require('node-rdkafka')
const [does, bootstrap, topic, options, ...names] = process.argv.slice(2)
const settings = { 'metadata.broker.list': bootstrap, ...JSON.parse(options) }

function failed(error) {
  console.error(`error: ${error.message || error}`)
}

if (does === 'produces') {
  const producer = new kafka.HighLevelProducer(settings)
  let left = names.length
  producer.on('event.error', failed)
  producer.on('ready', () => {
    for (const name of names) {
      producer.produce(topic, 0, Buffer.from(name), null, Date.now(), (error) => {
        if (error) failed(error)
        if (--left === 0) producer.disconnect(() => process.exit(0))
      })
    }
  })
  producer.connect()
} else {
  const group = { 'group.id': topic }
  const consumer = new kafka.KafkaConsumer({ ...settings, ...group }, { 'auto.offset.reset': 'earliest' })
  let left = names.length
  consumer.on('event.error', failed)
  consumer.on('ready', () => {
    consumer.subscribe([topic])
    consumer.consume()
  })
  consumer.on('data', (message) => {
    console.log(message.value.toString())
    if (--left === 0) consumer.disconnect(() => process.exit(0))
  })
  consumer.connect()
}
