// kafka-node: Consumer with given partitions, and ConsumerGroup. A pin is the size of a fetch.
'use strict'

const { asked, client, group, readAll, within } = require('./asked.js')
const kafka = client('kafka-node')
const options = asked()

const fetchMaxBytes = options.pin === 'default' ? 1024 * 1024 : 1024 * parseInt(options.pin, 10)
const settings = {
  autoCommit: options.mode === 'group',
  fetchMaxWaitMs: 100,
  fetchMinBytes: 1,
  fetchMaxBytes,
  encoding: 'buffer',
  keyEncoding: 'buffer',
}

function told(reading, message) {
  const { timestamp } = message
  const more = timestamp ? { t: Number(timestamp) } : {}
  reading.record(message.partition, message.offset, message.key, message.value, more)
}

async function assigned(reading) {
  const connection = new kafka.KafkaClient({ kafkaHost: options.bootstrap })
  await new Promise((ready) => connection.on('ready', ready))
  const numbers = [...Array(reading.partitions).keys()]
  const offsets = await new Promise((found, failed) => {
    const wanted = numbers.map((p) => ({ topic: reading.name, partition: p, time: -2, maxNum: 1 }))
    new kafka.Offset(connection).fetch(wanted, (e, data) => (e ? failed(e) : found(data)))
  })
  const payloads = numbers.map((partition) => {
    return { topic: reading.name, partition, offset: offsets[reading.name][partition][0] }
  })
  const consumer = new kafka.Consumer(connection, payloads, { ...settings, fromOffset: true })
  consumer.on('message', (message) => told(reading, message))
  consumer.on('error', (error) => (reading.error = reading.error || error))
  try {
    await reading.done()
  } finally {
    await within(1000, new Promise((closed) => consumer.close(false, closed)))
  }
}

async function grouped(reading) {
  const consumer = new kafka.ConsumerGroup(
    {
      ...settings,
      kafkaHost: options.bootstrap,
      groupId: group(options),
      fromOffset: 'earliest',
      outOfRangeOffset: 'earliest',
      autoCommitIntervalMs: 1000,
    },
    [reading.name]
  )
  consumer.on('message', (message) => told(reading, message))
  consumer.on('error', (error) => (reading.error = reading.error || error))
  try {
    await reading.done()
  } finally {
    await within(1000, new Promise((closed) => consumer.close(false, closed)))
  }
}

readAll(options, options.mode === 'group' ? grouped : assigned)
