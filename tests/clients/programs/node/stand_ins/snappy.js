// The native `snappy` as kafka-node and no-kafka know it, on snappyjs: nothing to compile.
'use strict'

const snappyjs = require('snappyjs')

function calls(work) {
  return (data, callback) => {
    let done
    try {
      done = work(data)
    } catch (error) {
      return process.nextTick(callback, error)
    }
    return process.nextTick(callback, null, done)
  }
}

exports.compress = calls((data) => snappyjs.compress(data))
exports.uncompress = (data, options, callback) =>
  calls((all) => snappyjs.uncompress(all))(data, callback || options)
exports.compressSync = (data) => snappyjs.compress(data)
exports.uncompressSync = (data) => snappyjs.uncompress(data)
