// SPDX-License-Identifier: Apache-2.0
// Loads the lines of a file with helpers.bulk, then reads all of them back with mget.
//   node bulk.mjs URL INDEX FILE [pause]
// pause: print "half" after half of the lines and go on when a line comes on standard input.
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { Client } from '@elastic/elasticsearch'

const [url, index, file, pause] = process.argv.slice(2)
const lines = readFileSync(file, 'utf8').split('\n').filter((line) => line.length > 0)
const client = new Client({ node: url, maxRetries: 10, compression: pause === undefined })

async function* documents() {
  for (let n = 0; n < lines.length; n++) {
    if (pause && n === Math.floor(lines.length / 2)) {
      const input = createInterface({ input: process.stdin })
      console.log('half')
      await new Promise((resolve) => input.once('line', resolve))
      input.close()
    }
    yield lines[n]
  }
}

let number = 0
const stats = await client.helpers.bulk({
  datasource: documents(),
  flushBytes: 300_000,
  concurrency: 2,
  onDocument: () => ({ index: { _index: index, _id: `line-${number++}` } }),
  onDrop: (dropped) => { throw new Error(`dropped: ${JSON.stringify(dropped)}`) }
})
if (stats.successful !== lines.length || stats.failed !== 0) {
  throw new Error(`bulk: ${JSON.stringify(stats)}`)
}

let read = 0
for (let at = 0; at < lines.length; at += 500) {
  const ids = lines.slice(at, at + 500).map((_, n) => `line-${at + n}`)
  const answer = await client.mget({ index, ids })
  answer.docs.forEach((doc, n) => {
    const expected = JSON.stringify(JSON.parse(lines[at + n]))
    if (!doc.found || doc._id !== ids[n] || JSON.stringify(doc._source) !== expected) {
      throw new Error(`mget: ${JSON.stringify(doc)}`)
    }
    read++
  })
}
if ((await client.count({ index })).count !== lines.length) {
  throw new Error('count')
}
if (await client.exists({ index, id: 'none' }) || !(await client.exists({ index, id: 'line-0' }))) {
  throw new Error('exists')
}
console.log(`loaded ${stats.successful}, read ${read}`)
await client.close()
