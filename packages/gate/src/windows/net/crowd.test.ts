import { createServer } from 'node:http'
import { createConnection } from 'node:net'
import { expect, test } from 'vitest'
import { crowd, crowdMax } from './crowd.ts'
import { listener, testNet } from './test-net.ts'

test('crowd() lets in so many, and the next when one has left, which counts once', () => {
  const one = crowd(2)
  const leave = [one.enter(), one.enter()]
  expect(one.enter()).toBeNull()
  leave[0]!()
  leave[0]!()
  expect(one.enter()).not.toBeNull()
  expect(one.enter()).toBeNull()
})

test('crowdMax() leaves half of the descriptors to others', () => {
  expect(
    crowdMax(
      () => 'Limit  Soft Limit  Hard Limit  Units\nMax open files            20000                20000                files\n',
    ),
  ).toBe(10_000)
  expect(crowdMax(() => 'Max open files  unlimited  unlimited  files')).toBe(512)
  expect(
    crowdMax(() => {
      throw new Error('not here')
    }),
  ).toBe(512)
})

const place = () => listener(createServer((_, response) => response.end('reached')))
const asked = 'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nConnection: close\r\n\r\n'

test('netWindow() turns a connection away when there is no room for it, and a call when there is none for where it goes', async () => {
  await using server = await place()
  await using full = await testNet({ upstream: server.port, crowd: crowd(0) })
  expect(await full.raw(asked)).toBe('')
  await using half = await testNet({ upstream: server.port, crowd: crowd(1) })
  expect(await half.raw(asked)).toMatch(/^HTTP\/1\.1 502 [^]*holds as many connections as it may/)
  expect(server.connections).toBe(0)
  expect([...full.dialled, ...half.dialled]).toEqual([])
})

test('netWindow() gives the room back that a call has had, also one that failed', async () => {
  await using server = await place()
  const all = crowd(2)
  const connect = () => createConnection({ host: '127.0.0.1', port: 1 })
  await using failing = await testNet({ upstream: server.port, crowd: all, dial: { connect } })
  await using net = await testNet({ upstream: server.port, crowd: all })
  // The window may hear later than its client that a connection has ended; the test's own time limit ends this otherwise.
  const untilSaid = async (window: typeof net, words: RegExp) => {
    while (!words.test(await window.raw(asked)));
  }
  for (let round = 0; round < 5; round++) {
    await untilSaid(failing, /the connection was refused/)
    await untilSaid(net, /reached/)
  }
})
