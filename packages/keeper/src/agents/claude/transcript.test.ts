import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Cell } from '../../cells/cell.ts'
import { noneDriver } from '../../cells/none/none.ts'
import { hasTranscript } from './transcript.ts'

const conversation = '00000000-0000-4000-8000-000000000000'
let home = ''
let cell: Cell
let path = ''
beforeEach(async () => {
  home = mkdtempSync(join(tmpdir(), 'ah-transcript-'))
  const gib = 2 ** 30
  const limits = {
    memoryBytes: gib,
    processesMax: 500,
    cpus: 1,
    diskBytes: gib,
    fileBytes: gib,
    openFilesMax: 1024,
    tmpBytes: gib,
  }
  cell = await noneDriver().start(
    { name: 'transcript', workspace: home, home, windows: null, mounts: [], limits, cgroups: [], runAs: null },
    new AbortController().signal,
  )
  mkdirSync(join(home, '.claude/projects/-workspace'), { recursive: true })
  path = join(home, '.claude/projects/-workspace', `${conversation}.jsonl`)
})
afterEach(async () => {
  await cell[Symbol.asyncDispose]()
  rmSync(home, { recursive: true })
})

test('hasTranscript() finds a conversation that the agent has written down', async () => {
  writeFileSync(path, '{"type":"mode"}\n{"type":"user","message":{}}\n')
  expect(await hasTranscript(cell, home, conversation)).toBe(true)
  expect(await hasTranscript(cell, home, conversation.replace('4', '5'))).toBe(false)
})

test('hasTranscript() finds none where the agent was ended before it wrote any', async () => {
  expect(await hasTranscript(cell, home, conversation)).toBe(false)
  writeFileSync(path, '{"type":"mode"}\n')
  expect(await hasTranscript(cell, home, conversation)).toBe(false)
})

test('hasTranscript() does not wait at a pipe that stands in its place', async () => {
  await cell.spawn(['/usr/bin/mkfifo', path], { env: {}, cwd: '/' }).exited
  expect(statSync(path).isFIFO()).toBe(true)
  expect(await hasTranscript(cell, home, conversation)).toBe(false)
})
