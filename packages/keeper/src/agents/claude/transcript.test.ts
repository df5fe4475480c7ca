import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Cell } from '../../cells/cell.ts'
import { noExtras } from '@anchorhold/protocol/sessions'
import { noneDriver } from '../../cells/none/none.ts'
import { forgetAfter, forgetOwnWords, readTranscript } from './transcript.ts'

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
    {
      ...{
        name: 'transcript',
        workspace: home,
        home,
        windows: null,
        mounts: [],
        network: 'none',
        trust: null,
        covers: [],
        root: null,
        scratch: home,
      },
      ...{ limits, extras: noExtras, cgroups: [], runAs: null },
    },
    new AbortController().signal,
  )
  mkdirSync(join(home, '.claude/projects/-workspace'), { recursive: true })
  path = join(home, '.claude/projects/-workspace', `${conversation}.jsonl`)
})
afterEach(async () => {
  await cell[Symbol.asyncDispose]()
  rmSync(home, { recursive: true })
})

const read = (uuids: readonly string[] = [], of = conversation) => readTranscript({ cell, home, conversation: of }, uuids)
const nothing = { begun: false, known: new Set() }

test('readTranscript() finds a conversation that the agent has written down', async () => {
  writeFileSync(path, '{"type":"mode"}\n{"type":"user","message":{}}\n')
  expect(await read()).toEqual({ begun: true, known: new Set() })
  expect(await read([], conversation.replace('4', '5'))).toEqual(nothing)
})

test('readTranscript() finds none where the agent was ended before it wrote any', async () => {
  expect(await read()).toEqual(nothing)
  writeFileSync(path, '{"type":"mode"}\n')
  expect(await read()).toEqual(nothing)
})

test('readTranscript() tells which messages are in it, whatever is said about others', async () => {
  const [first, second, third] = [1, 2, 3].map((n) => `0000000${n}-0000-4000-8000-000000000000`) as [string, string, string]
  const lines = [
    { type: 'user', uuid: first, message: { content: `"uuid":"${second}"` } },
    { type: 'assistant', parentUuid: third, uuid: 'x' },
  ]
  writeFileSync(path, lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
  expect(await read([first, second, third])).toEqual({ begun: true, known: new Set([first]) })
})

test('readTranscript() does not wait at a pipe that stands in its place', async () => {
  await cell.spawn(['/usr/bin/mkfifo', path], { env: {}, cwd: '/' }).exited
  expect(statSync(path).isFIFO()).toBe(true)
  expect(await read()).toEqual(nothing)
})

test('forgetOwnWords() takes out that the agent told itself to go on, and only when nothing came after it', async () => {
  const told = { type: 'user', message: { content: [{ type: 'text', text: 'Continue from where you left off.' }] }, isMeta: true }
  const asked = { type: 'user', message: { content: [{ type: 'text', text: 'Continue from where you left off.' }] } }
  const write = (...lines: readonly object[]) => writeFileSync(path, lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
  const forget = async () => {
    await forgetOwnWords({ cell, home, conversation })
    return readFileSync(path, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as object)
  }
  const prompt = { type: 'user', message: { content: 'Hello' } }
  write(prompt, { type: 'attachment' }, told, { type: 'last-prompt' })
  expect(await forget()).toEqual([prompt, { type: 'attachment' }])
  for (const kept of [
    [prompt, told, { type: 'assistant' }],
    [prompt, asked],
  ]) {
    write(...kept)
    expect(await forget()).toEqual(kept)
  }
})

test('forgetAfter() keeps what was written up to the newest message that is there, and refuses when none is', async () => {
  const ids = [1, 2, 3, 4].map((n) => `0000000${n}-0000-4000-8000-000000000000`)
  const lines = ids.slice(0, 3).map((uuid) => `${JSON.stringify({ type: 'user', uuid })}\n`)
  const after = async (...uuids: readonly string[]) => {
    writeFileSync(path, lines.join(''))
    await forgetAfter({ cell, home, conversation }, uuids)
    return readFileSync(path, 'utf8')
  }
  expect(await after(ids[1]!, ids[0]!)).toBe(lines.slice(0, 2).join(''))
  // The newest had not been written down: all that had been is kept.
  expect(await after(ids[3]!, ids[2]!)).toBe(lines.join(''))
  await expect(after(ids[3]!)).rejects.toMatchObject({ code: 'conflict' })
  expect(readFileSync(path, 'utf8')).toBe(lines.join(''))
  rmSync(path)
  await forgetAfter({ cell, home, conversation }, [ids[0]!])
})

test('readTranscript() does not hear out a cell that says more than it was asked for', async () => {
  const hostile: Cell = {
    ...cell,
    spawn: (_, options) => cell.spawn(['sh', '-c', 'yes'], { ...options, env: { PATH: '/usr/bin:/bin' } }),
  }
  const asked = readTranscript({ cell: hostile, home, conversation }, [])
  await expect(asked).rejects.toThrow('its cell gave no answer')
})
