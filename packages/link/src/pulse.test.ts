import type { Clock } from './clock.ts'
import { Failure } from '@anchorhold/protocol/failures'
import { expect, test, vi } from 'vitest'
import { watchPulse } from './pulse.ts'

/** A process that answers when it is told to, and the beats one by one. */
function pulse() {
  const asked: { answer(): void; fail(error: Error): void }[] = []
  let due: (() => void) | null = null
  const clock = {
    after(_ms: number, then: () => void) {
      due = then
      return () => {}
    },
  } as unknown as Clock
  const onHung = vi.fn()
  const to = { open: true, do: () => new Promise<unknown>((resolve, fail) => asked.push({ answer: () => resolve(null), fail })) }
  watchPulse(to, { clock, beatMs: 1, missedMax: 3, onHung })
  const beat = async () => {
    const then = due
    due = null
    then?.()
    await Promise.resolve()
  }
  const answer = async () => {
    asked.at(-1)?.answer()
    await new Promise(setImmediate)
  }
  const fail = async (error: Error) => {
    asked.at(-1)?.fail(error)
    await new Promise(setImmediate)
  }
  return { to, beat, answer, fail, onHung, asked, isWatched: () => due !== null }
}

test('watchPulse() asks again only when it was answered, and takes an answer that is late', async () => {
  const { beat, answer, onHung, asked } = pulse()
  for (let round = 1; round <= 5; round++) {
    for (let i = 0; i < 3; i++) await beat()
    expect(asked).toHaveLength(round)
    await answer()
  }
  expect(onHung).not.toHaveBeenCalled()
})

test('watchPulse() tells once of a process that owes an answer for so many beats in a row', async () => {
  const { beat, onHung, isWatched } = pulse()
  for (let i = 0; i < 10; i++) await beat()
  expect(onHung).toHaveBeenCalledOnce()
  expect(isWatched()).toBe(false)
})

test('watchPulse() is over when the link is', async () => {
  const { to, beat, asked, isWatched } = pulse()
  to.open = false
  await beat()
  expect([asked.length, isWatched()]).toEqual([0, false])
})

test('watchPulse() takes a refusal for an answer, and not that none came in time', async () => {
  const refused = pulse()
  const silent = pulse()
  for (let i = 0; i < 10; i++) {
    for (const one of [refused, silent]) await one.beat()
    await refused.fail(new Failure('wrong_state', 'It is being left'))
    await silent.fail(new Failure('keeper_unavailable', 'It did not answer within 60 s'))
  }
  expect([refused.onHung.mock.calls.length, silent.onHung.mock.calls.length]).toEqual([0, 1])
})
