// no-kafka: SimpleConsumer and GroupConsumer.
'use strict'

const { asked, client, group, readAll, within } = require('./asked.js')
const kafka = client('no-kafka')
const options = asked()

const settings = {
  connectionString: options.bootstrap,
  maxBytes: 4 * 1024 * 1024,
  maxWaitTime: 100,
  idleTimeout: 50,
  logger: { logLevel: 1 },
}

function told(reading) {
  return (messages, _, partition) => {
    for (const { offset, message } of messages) {
      reading.record(partition, offset, message.key, message.value)
    }
  }
}

async function assigned(reading) {
  const consumer = new kafka.SimpleConsumer(settings)
  await consumer.init()
  try {
    const numbers = [...Array(reading.partitions).keys()]
    const from = { time: kafka.EARLIEST_OFFSET }
    await consumer.subscribe(reading.name, numbers, from, told(reading))
    await reading.done()
  } finally {
    await within(1000, consumer.end())
  }
}

async function grouped(reading) {
  const consumer = new kafka.GroupConsumer({
    ...settings,
    groupId: group(options),
    startingOffset: kafka.EARLIEST_OFFSET,
  })
  await consumer.init([{ subscriptions: [reading.name], handler: told(reading) }])
  try {
    await reading.done()
  } finally {
    await within(1000, consumer.end())
  }
}

readAll(options, options.mode === 'group' ? grouped : assigned)
