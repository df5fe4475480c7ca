import type { Target } from '@anchorhold/core/net/target'
import type { Socket } from 'node:net'
import { expect, test } from 'vitest'
import type { Dialled, Dialler, DialOptions } from './dial.ts'
import { mirrored } from './mirrors.ts'

const named = (host: string, port = 443): Target => ({ host, port, isAddress: false })

function recording(answer: Dialled): Dialler & { readonly dialled: [string, number, boolean][] } {
  const dialled: [string, number, boolean][] = []
  return {
    dialled,
    refuses: () => 'refused',
    async dial({ host, port }: Target, { ownNetwork }: DialOptions) {
      dialled.push([host, port, ownNetwork])
      return answer
    },
  }
}

test('mirrored() leads what is listed to its place, and nothing else: neither another port nor a name below it', async () => {
  const inner = recording({ socket: {} as Socket })
  const dialler = mirrored(inner, () => ({
    'a.example:443': '127.0.0.1:4873',
    'b.example:443': '[::1]:9',
    'c.example:443': 'd.example:1',
  }))
  const never = new AbortController().signal
  for (const [host, port] of [['a.example'], ['b.example'], ['a.example', 80], ['x.a.example'], ['c.example']] as const)
    await dialler.dial(named(host, port), { ownNetwork: false }, never)
  expect(inner.dialled).toEqual([
    ['127.0.0.1', 4873, true],
    ['::1', 9, true],
    ['a.example', 80, false],
    ['x.a.example', 443, false],
    ['c.example', 443, false],
  ])
  expect(dialler.refuses(named('a.example'), { ownNetwork: false })).toBe(null)
  expect(dialler.refuses(named('x.a.example'), { ownNetwork: false })).toBe('refused')
})

test('mirrored() does not tell a cell where a mirror is', async () => {
  const dialler = mirrored(recording({ failed: 'Cannot reach "10.1.2.3" on port 4873' }), () => ({
    'a.example:443': '10.1.2.3:4873',
  }))
  const dialled = await dialler.dial(named('a.example'), { ownNetwork: false }, new AbortController().signal)
  expect(dialled).toEqual({ failed: 'Cannot reach "a.example" on port 443: its mirror does not answer' })
})
