import type { LiveFrame } from '@anchorhold/protocol/events'
import { expect, test } from 'vitest'
import { hearLive, hearStored, silence } from './saying.ts'
import { logOf } from './test-events.ts'

const delta = (offset: number, text: string) => ({ type: 'text.delta', block: 'b', offset, text }) as const
const said = (...list: readonly ReturnType<typeof delta>[]) => list.reduce(hearLive, silence).blocks[0]?.text

test('hearLive() puts deltas where they belong: none twice, none behind a hole', () => {
  expect(said(delta(0, 'Hel'), delta(3, 'lo'))).toBe('Hello')
  expect(said(delta(0, 'Hel'), delta(0, 'Hel'), delta(1, 'el'))).toBe('Hel')
  expect(said(delta(0, 'Hel'), delta(4, 'o'))).toBe('Hel')
  expect(said(delta(0, 'Hel'), delta(0, 'Hello there'))).toBe('Hello there')
})

test('hearLive() lets be what it does not know yet', () => {
  expect(hearLive(silence, { type: 'future.frame', session: 's' } as unknown as LiveFrame)).toBe(silence)
})

test('hearStored() ends the block that was stored, the calls at the end of a turn, and everything when the keeper is gone', () => {
  const saying = [delta(0, 'Hello'), { type: 'tool.progress', call: 'c', tool: 'Bash', elapsed_ms: 5 } as const].reduce(
    hearLive,
    silence,
  )
  const [text, finished, ended, left] = logOf(
    ['text', { block: 'b', text: 'Hello' }],
    ['tool.finished', { call: 'c', tool: 'Bash', output: '', truncated: false, failed: false }],
    ['turn.ended', { reason: 'done', why: null, duration_ms: 1 }],
    ['keeper.left', { why: 'idle', failed: false }],
  )
  expect(hearStored(saying, text!).blocks).toEqual([])
  expect(hearStored(saying, finished!)).toEqual({ ...saying, elapsedMs: {} })
  expect(hearStored(saying, ended!)).toEqual({ ...saying, elapsedMs: {} })
  expect(hearStored(saying, left!)).toBe(silence)
})
