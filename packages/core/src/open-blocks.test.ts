import type { LiveFrame } from '@anchorhold/protocol/events'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { openBlocks, saidIn, storedLine } from './open-blocks.ts'

const delta = (block: string, offset: number, text: string): LiveFrame => ({ type: 'text.delta', block, offset, text })

test('openBlocks() holds the whole text of a block whatever is repeated or comes late', () => {
  fc.assert(
    fc.property(fc.string({ minLength: 1 }), fc.array(fc.tuple(fc.nat(50), fc.nat(50))), (text, ranges) => {
      const open = openBlocks()
      for (let at = 0; at < text.length; at++) {
        open.live(delta('b', at, text[at]!))
        for (const [from, length] of ranges)
          if (from + length <= at + 1) open.live(delta('b', from, text.slice(from, from + length)))
        expect(open.frames()).toEqual([delta('b', 0, text.slice(0, at + 1))])
      }
    }),
  )
})

test('openBlocks() leaves no hole where a delta was missed', () => {
  const open = openBlocks()
  open.live(delta('b', 0, 'abc'))
  open.live(delta('b', 5, 'fg'))
  expect(open.frames()).toEqual([delta('b', 0, 'abc')])
})

test('openBlocks() forgets a block when it is stored, and all of them when the keeper is gone', () => {
  const open = openBlocks()
  for (const block of ['a', 'b', 'c']) open.live(delta(block, 0, block))
  open.stored({ type: 'text', body: { block: 'b', text: 'b', parent: null } })
  expect(open.frames().map(({ block }) => block)).toEqual(['a', 'c'])
  // The next turn may speak already.
  open.stored({ type: 'turn.ended', body: { reason: 'done', why: null, duration_ms: 1 } })
  expect(open.frames().map(({ block }) => block)).toEqual(['a', 'c'])
  open.stored({ type: 'keeper.left', body: { why: 'idle', failed: false } })
  expect(open.frames()).toEqual([])
})

test('saidIn() gives what is in no outbox, and nothing of what is torn or none of ours', () => {
  const [a, b] = ['a', 'b'].map((block) => ({ type: 'text.delta', block, offset: 0, text: block, parent: null }))
  const line = (what: unknown) => `${JSON.stringify(what)}\n`
  expect(saidIn(line(a) + line(b) + storedLine('a') + line(null) + line({ type: 'x' }) + '\n{"type":"text.del')).toEqual([b])
  expect(saidIn('')).toEqual([])
})
