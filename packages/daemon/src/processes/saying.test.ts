import type { LiveFrame } from '@anchorhold/protocol/events'
import { expect, test } from 'vitest'
import { readSaying } from './saying.ts'

const failing = (code: string) => () => Promise.reject(Object.assign(new Error(code), { code }))

test('readSaying() gives what an agent was saying', async () => {
  const words: LiveFrame = { type: 'text.delta', block: 'b', offset: 0, text: 'x', parent: null }
  expect(await readSaying('/saying', async () => `${JSON.stringify(words)}\n`)).toEqual([words])
})

test.each(['ENOENT', 'ELOOP', 'ENXIO', 'ENOTDIR'])(
  'readSaying() takes a file that is not there (%s) for silence',
  async (code) => {
    expect(await readSaying('/saying', failing(code))).toEqual([])
  },
)

test.each(['EMFILE', 'ENOMEM'])('readSaying() takes nothing for silence that may be read later (%s)', async (code) => {
  await expect(readSaying('/saying', failing(code))).rejects.toThrow(code)
})
