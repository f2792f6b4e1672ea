// What every program is asked, and how it says what it read: python/asked.py has the same.
'use strict'

const fs = require('fs')

const GRACE = 250 // milliseconds

function asked() {
  const options = { topics: [], wait: 8, pin: 'default', codec: 'none', acks: '1', group: 'g' }
  const given = process.argv.slice(3)
  for (let i = 0; i + 1 < given.length; i += 2) {
    if (given[i] === '--topic') options.topics.push(given[i + 1])
    else options[given[i].slice(2)] = given[i + 1]
  }
  options.wait = 1000 * Number(options.wait)
  return options
}

// The client itself, from the folder that is the first argument.
function client(name) {
  return require(require.resolve(name, { paths: [process.argv[2]] }))
}

class Reading {
  constructor(topic, wait) {
    const [name, partitions, count] = topic.split(':')
    Object.assign(this, { name, partitions: Number(partitions), count: Number(count), wait })
    this.seen = 0
    this.started = Date.now()
    this.complete = null
    this.ended = false
    this.error = null
  }

  get goesOn() {
    const now = Date.now()
    if (this.error) return false
    if (this.seen >= this.count && this.complete === null) this.complete = now
    if (this.complete !== null) {
      return now - this.complete < GRACE && this.seen < 2 * this.count + 10
    }
    return now - this.started < this.wait
  }

  record(partition, offset, key, value, more = {}) {
    if (this.ended) return
    this.seen += 1
    const line = { topic: this.name, p: partition, o: Number(offset) }
    print({ ...line, k: hex(key), v: hex(value), ...more })
  }

  // Until it has all, or its time is over.
  async done() {
    while (this.goesOn) await new Promise((wake) => setTimeout(wake, 20))
    if (this.error) throw this.error
  }
}

function hex(data) {
  return data === null || data === undefined ? null : Buffer.from(data).toString('hex')
}

let lines = []

function print(line) {
  lines.push(JSON.stringify(line) + '\n')
  if (lines.length > 500) flush()
}

function flush() {
  const text = Buffer.from(lines.join(''))
  lines = []
  for (let at = 0; at < text.length; ) {
    try {
      at += fs.writeSync(1, text, at)
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error
    }
  }
}

async function readAll(options, read) {
  for (const topic of options.topics) {
    const reading = new Reading(topic, options.wait)
    const guard = setTimeout(() => giveUp(reading), options.wait + 10000)
    const fail = (error) => (reading.error = reading.error || error)
    process.removeAllListeners('uncaughtException')
    process.removeAllListeners('unhandledRejection')
    process.on('uncaughtException', fail)
    process.on('unhandledRejection', fail)
    let end
    try {
      await read(reading)
      end = reading.seen >= reading.count ? 'count' : 'time'
    } catch (error) {
      console.error(error)
      end = String(error).slice(0, 300)
    }
    reading.ended = true
    clearTimeout(guard)
    print({ topic: reading.name, end })
    flush()
  }
  process.exit(0)
}

function giveUp(reading) {
  print({ topic: reading.name, end: 'hangs' })
  flush()
  process.exit(3)
}

// At most so many milliseconds for what may never call back, such as closing.
function within(milliseconds, promise) {
  return Promise.race([promise, new Promise((wake) => setTimeout(wake, milliseconds))])
}

function group(options) {
  return `${options.group}-${process.pid}-${Date.now()}-${Math.random()}`
}

module.exports = { asked, client, group, readAll, within }
