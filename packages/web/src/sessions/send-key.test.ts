import { expect, test } from 'vitest'
import { keyFor } from './send-key.ts'

test('keyFor() is the same for what is the same, until it is something else', () => {
  const kept = new Map<string, string>()
  const shelf = {
    getItem: (name: string) => kept.get(name) ?? null,
    setItem: (name: string, value: string) => void kept.set(name, value),
  }
  let made = 0
  const key = (body: unknown) => keyFor(shelf, 'place', body, () => `key ${++made}`)
  expect([key({ text: 'a' }), key({ text: 'a' })]).toEqual(['key 1', 'key 1'])
  expect([key({ text: 'a', rung: 'none' }), key({ text: 'a' })]).toEqual(['key 2', 'key 3'])
  kept.set('place', '{"half')
  expect(key({ text: 'a' })).toBe('key 4')
})

test('keyFor() gives a key also on a device that is full', () => {
  const setItem = (): never => {
    throw new DOMException('full', 'QuotaExceededError')
  }
  expect(keyFor({ getItem: () => null, setItem }, 'place', { text: 'a' }, () => 'key')).toBe('key')
})
