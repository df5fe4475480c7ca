import type { Rung } from '@anchorhold/protocol/rungs'
import type { Network } from '@anchorhold/protocol/sessions'
import { expect, test } from 'vitest'
import { networkFor, networkNow } from './network.ts'

type House = { readonly usual?: 'none' | 'proxy_only'; readonly most?: Network }
test.each<[Rung, Network | undefined, House, string]>([
  ['bwrap', undefined, {}, 'proxy_only'],
  ['bwrap', undefined, { usual: 'none' }, 'none'],
  ['bwrap', undefined, { most: 'none' }, 'none'],
  ['bwrap', undefined, { usual: 'none', most: 'proxy_only' }, 'none'],
  ['bwrap', 'none', {}, 'none'],
  ['gvisor', 'proxy_only', { usual: 'none' }, 'proxy_only'],
  ['gvisor', 'proxy_only', { most: 'none' }, 'Cannot start a session with a net window: the policy says "none"'],
  ...(['container', 'gvisor', 'microvm', 'seatbelt'] as const).map((rung): [Rung, Network, House, string] => [
    ...([rung, 'host', { most: 'host' }, `A cell of rung "${rung}" cannot share the host's network`] as const),
  ]),
  ['bwrap', 'host', { most: 'host' }, 'host'],
  ['bwrap', undefined, { most: 'host' }, 'proxy_only'],
  ['bwrap', 'host', {}, 'Cannot start a session on the host network: no policy allows it'],
  ['bwrap', 'host', { most: 'proxy_only' }, 'Cannot start a session on the host network: the policy says "proxy_only"'],
  ['none', undefined, { most: 'host' }, 'host'],
  ['none', undefined, {}, 'host'],
  ['none', 'host', {}, 'host'],
  ['none', 'proxy_only', {}, 'An agent without a cell cannot be kept off the host network'],
  ['none', undefined, { most: 'proxy_only' }, 'Cannot start a session on the host network: the policy says "proxy_only"'],
  ['seatbelt', undefined, {}, 'none'],
  ['seatbelt', 'proxy_only', {}, 'A cell of rung "seatbelt" has no loopback of its own that a net window could be on'],
])(
  'networkFor() on rung %s, asked for %s in a house with %j',
  (rung, asked, { usual = 'proxy_only', most = null as never }, expected) => {
    const choose = () => networkFor({ network: usual }, rung, asked, { network: most })
    if (expected === 'none' || expected === 'proxy_only' || expected === 'host') expect(choose()).toBe(expected)
    else expect(choose).toThrow(expected)
  },
)

test.each<[Rung, Network, Network | null, Network | null]>([
  ['bwrap', 'host', 'host', 'host'],
  ['bwrap', 'host', null, null],
  ['bwrap', 'host', 'proxy_only', null],
  ['none', 'host', null, 'host'],
  ['none', 'host', 'none', null],
  ['bwrap', 'proxy_only', 'host', 'proxy_only'],
  ['bwrap', 'proxy_only', 'none', 'none'],
])('networkNow() on rung %s of a session with %s where policies say %s is %s', (rung, network, most, expected) => {
  expect(networkNow({ rung, network }, { network: most })).toBe(expected)
})
