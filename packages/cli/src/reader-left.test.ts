import { execFileSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { onReaderLeft } from './reader-left.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'reader-left-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

test('onReaderLeft() hears that a pipe is closed at its other end, without writing to it', async () => {
  const pipe = join(folder, 'pipe')
  execFileSync('mkfifo', [pipe])
  const reader = openSync(pipe, 'r+')
  const writer = openSync(pipe, 'w')
  const { promise, resolve } = Promise.withResolvers<string>()
  using _ = onReaderLeft(writer, () => resolve('left'))
  closeSync(reader)
  expect(await promise).toBe('left')
  closeSync(writer)
})

test('onReaderLeft() leaves a file alone', () => {
  const file = openSync(join(folder, 'file'), 'w')
  using _ = onReaderLeft(file, () => expect.unreachable())
  closeSync(file)
})
