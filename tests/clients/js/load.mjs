// SPDX-License-Identifier: Apache-2.0
// Loads lines with helpers.bulk of an Elastic or OpenSearch client, exports them with
// helpers.scrollSearch, reads them with mget.
//   NODE_PATH=… node load.mjs URL FILE INDEX PACKAGE [gzip]
// prints {"loaded": N, "read": N, "exported": N}; ids are line-0, line-1 …
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { setTimeout as pause } from 'node:timers/promises'
import assert from 'node:assert/strict'

const [url, file, index, name, gzip] = process.argv.slice(2)
const { Client, errors } = createRequire(import.meta.url)(name)
const lines = readFileSync(file, 'utf8').split('\n').filter((line) => line.length > 0)
// Until version 7 bodies are apart from parameters.
const flat = name === 'elastic8' || name === 'elastic9'
const client = new Client({ node: url, maxRetries: 3, ...(gzip && { compression: flat || 'gzip' }) })
const ask = (parameters, body) => flat ? { ...parameters, ...body } : { ...parameters, body }
const answer = (reply) => flat ? reply : reply.body

function passing (error) { // of a daemon that is away
  return error instanceof errors.ConnectionError || error instanceof errors.TimeoutError ||
    [429, 502, 503, 504].includes(error.statusCode)
}

// The helper gives up when its client's retries are used up: then its lines again; ids make it safe.
// What was acknowledged is not sent again, so that its loss would be seen.
let loaded = 0
for (const until = Date.now() + 120_000; loaded < lines.length;) {
  let number = loaded
  const part = lines.slice(loaded, loaded + 500)
  try {
    const stats = await client.helpers.bulk({
      datasource: (async function * () { yield * part })(),
      wait: 100,
      onDocument: () => ({ index: { _index: index, _id: `line-${number++}` } }),
      onDrop: (dropped) => assert.fail(`dropped: ${JSON.stringify(dropped)}`)
    })
    assert.equal(stats.failed, 0)
    loaded += stats.successful
  } catch (error) {
    if (!passing(error) || Date.now() > until) throw error
    await pause(100)
  }
}
assert.equal(loaded, lines.length)

let exported = 0
const seen = new Set()
const search = { index, scroll: '1m', size: 700 }
for await (const result of client.helpers.scrollSearch(ask(search, { query: { match_all: {} } }))) {
  for (const hit of result.body.hits.hits) {
    assert.deepEqual(hit._source, JSON.parse(lines[Number(hit._id.slice(5))]))
    seen.add(hit._id)
    exported++
  }
}
assert.equal(seen.size, exported)

let read = 0
for (let at = 0; at < lines.length; at += 500) {
  const ids = lines.slice(at, at + 500).map((_, n) => `line-${at + n}`)
  answer(await client.mget(ask({ index }, { ids }))).docs.forEach((doc, n) => {
    assert.equal(doc._id, ids[n])
    assert.deepEqual(doc._source, JSON.parse(lines[at + n]))
    read++
  })
}
assert.equal(answer(await client.count({ index })).count, lines.length)

// The rest of a day's work.
const id = "a/b c+d%é#?&=:@,~!*()'"
await client.index(ask({ index: 'other', id }, flat ? { document: { v: 1 } } : { v: 1 }))
assert.equal(answer(await client.exists({ index: 'other', id })), true)
assert.equal(answer(await client.exists({ index: 'other', id: 'none' })), false)
assert.deepEqual(answer(await client.get({ index: 'other', id }))._source, { v: 1 })
await assert.rejects(client.create(ask({ index: 'other', id }, flat ? { document: {} } : {})), { statusCode: 409 })
assert.equal(answer(await client.delete({ index: 'other', id })).result, 'deleted')
console.log(JSON.stringify({ loaded, read, exported }))
await client.close()
