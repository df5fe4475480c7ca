import type { IncomingMessage } from 'node:http'
import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { bodyReader } from './read-body.ts'

function sender(headers: Readonly<Record<string, string>> = {}) {
  const stream = new PassThrough()
  return Object.assign(stream as unknown as IncomingMessage, { headers: { 'content-type': 'application/json', ...headers } })
}
const send = (request: IncomingMessage, text: string) => (request as unknown as PassThrough).write(text)
const end = (request: IncomingMessage, text = '') => (request as unknown as PassThrough).end(text)

test('bodyReader() holds no more of all senders together than it may, and takes others when one is done', async () => {
  const read = bodyReader(20)
  const [first, second, third] = [sender(), sender(), sender()]
  const whole = read(first, 16)
  send(first, '"first, of 15')
  const refused = read(second, 16)
  send(second, '"second"')
  await expect(refused).rejects.toMatchObject({ code: 'too_many' })
  // What was not kept of the second is not counted any more.
  end(first, 's"')
  expect(await whole).toBe('first, of 15s')
  const taken = read(third, 20)
  end(third, '"a third one of 20"')
  expect(await taken).toBe('a third one of 20')
})

test('bodyReader() reads no more than one may send, whether or not they say how much comes', async () => {
  const read = bodyReader(1000)
  await expect(read(sender({ 'content-length': '11' }), 10)).rejects.toMatchObject({ code: 'too_large' })
  const untold = sender()
  const refused = read(untold, 10)
  send(untold, '"more than ten"')
  await expect(refused).rejects.toMatchObject({ code: 'too_large' })
  expect(untold.isPaused()).toBe(true)
})

test('bodyReader() says what is wrong with a body, and what is none is nothing', async () => {
  const read = bodyReader(1000)
  const reading = (text: string, headers = {}) => {
    const request = sender(headers)
    const body = read(request, 100)
    end(request, text)
    return body
  }
  expect(await reading('')).toBeUndefined()
  await expect(reading('{')).rejects.toThrow('The body is not valid JSON')
  await expect(reading('{}', { 'content-type': 'text/plain' })).rejects.toThrow('The body must be JSON')
  const broken = sender()
  const body = read(broken, 100)
  ;(broken as unknown as PassThrough).destroy()
  await expect(body).rejects.toThrow('The request broke off')
})
