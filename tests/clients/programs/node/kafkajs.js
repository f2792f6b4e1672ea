// kafkajs: groups, which are all that it has.
'use strict'

const { asked, client, group, readAll, within } = require('./asked.js')
const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = client('kafkajs')
const { uncompress } = require('snappyjs')
const lz4 = require('lz4js')
const zstd = require('fzstd')
const options = asked()

// xerial's framing, and snappy without one.
function fromSnappy(data) {
  if (data.readUInt32BE(0) !== 0x82534e41) return uncompress(data)
  const blocks = []
  for (let at = 16; at < data.length; ) {
    const size = data.readUInt32BE(at)
    blocks.push(uncompress(data.subarray(at + 4, at + 4 + size)))
    at += 4 + size
  }
  return Buffer.concat(blocks)
}

const codec = (decompress) => () => ({ decompress: async (data) => Buffer.from(decompress(data)) })
CompressionCodecs[CompressionTypes.Snappy] = codec(fromSnappy)
CompressionCodecs[CompressionTypes.LZ4] = codec((data) => lz4.decompress(data))
CompressionCodecs[CompressionTypes.ZSTD] = codec((data) => zstd.decompress(data))

// Headers are an object, in which a name is there once: what they were cannot be told.
async function read(reading) {
  const kafka = new Kafka({
    clientId: 'kafkajs',
    brokers: [options.bootstrap],
    logLevel: logLevel.ERROR,
  })
  const consumer = kafka.consumer({
    groupId: group(options),
    maxBytesPerPartition: 4 * 1024 * 1024,
    maxWaitTimeInMs: 100,
    readUncommitted: true,
  })
  await consumer.connect()
  try {
    await consumer.subscribe({ topic: reading.name, fromBeginning: true })
    await consumer.run({
      eachMessage: async ({ partition, message }) => {
        const t = Number(message.timestamp)
        reading.record(partition, message.offset, message.key, message.value, { t })
      },
    })
    await reading.done()
  } finally {
    await within(3000, consumer.disconnect())
  }
}

readAll(options, read)
