import { Failure } from '@anchorhold/protocol/failures'
import { expect, test, vi } from 'vitest'
import { proofDesk, withProof } from './proof.ts'

const needed = new Failure('proof_needed', 'Cannot make a rule')
const reasonOf = (error: unknown) => (error === needed ? needed.message : null)

test('withProof() makes a call once more after a proof, and asks but once for several', async () => {
  const desk = proofDesk()
  const shown = vi.fn()
  desk.subscribe(shown)
  let proved = false
  const calls = withProof({ act: async (what: string) => (proved ? what : Promise.reject(needed)) }, desk, reasonOf)
  const both = Promise.all([calls.act('one'), calls.act('two')])
  await vi.waitFor(() => expect(desk.asked()).toBe('Cannot make a rule'))
  proved = true
  desk.settle(true)
  expect(await both).toEqual(['one', 'two'])
  expect(desk.asked()).toBeNull()
  expect(shown).toHaveBeenCalledTimes(2)
})

test('withProof() gives the refusal to who would not, and asks nobody for other failures', async () => {
  const desk = proofDesk()
  const calls = withProof({ act: () => Promise.reject(needed), fail: () => Promise.reject(new Error('x')) }, desk, reasonOf)
  const one = calls.act()
  await vi.waitFor(() => expect(desk.asked()).not.toBeNull())
  desk.settle(false)
  await expect(one).rejects.toBe(needed)
  await expect(calls.fail()).rejects.toThrow('x')
  expect(desk.asked()).toBeNull()
})
