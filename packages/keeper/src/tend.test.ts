import { saidIn } from '@anchorhold/core/open-blocks'
import { systemClock } from '@anchorhold/link/clock'
import { memoryDisk } from '@anchorhold/link/memory-disk'
import type { Wire } from '@anchorhold/link/wire'
import { randomBytes } from 'node:crypto'
import { expect, test, vi } from 'vitest'
import { fakeAgents } from './agents/fake-agent.ts'
import { fakeCells } from './cells/fake-cell.ts'
import { fakeStart } from './fake-start.ts'
import { noVeil } from './repo-filter/veil.ts'
import { tend } from './tend.ts'

/** A keeper whose file of what is being said can be looked at. Nobody attaches to it. */
async function tended() {
  let file = ''
  const agents = fakeAgents()
  const wire = { listen: async () => ({ close: async () => {} }) } as unknown as Wire
  const one = await tend({
    start: fakeStart(),
    cells: fakeCells(),
    agents,
    toolchains: [],
    veil: noVeil,
    disk: memoryDisk(),
    saying: {
      add: (line) => void (file += line),
      replace: (lines) => void (file = lines),
      empty: () => void (file = ''),
    },
    wire,
    pid: 1,
    settle: async () => null,
    pinFiles: async () => [],
    agentBeatMs: null,
    furnish: { agent: async () => {}, programs: async () => {} },
    checkedOut: async () => null,
    clock: systemClock,
    random: randomBytes,
    die(error) {
      throw error
    },
  })
  await vi.waitFor(() => expect(agents.starts).toHaveLength(1))
  const { heard } = agents
  heard.state('running')
  return {
    one,
    file: () => file,
    say: (parent: string | null, block: string, text: string) =>
      heard.live({ type: 'text.delta', block, offset: 0, text, parent }),
    finish: (parent: string | null, block: string, text: string) => heard.event({ type: 'text', body: { block, text, parent } }),
  }
}

test('tend() leaves in its file only what is not stored, however much is said while another block is open', async () => {
  const { one, file, say, finish } = await tended()
  say(null, 'mine', 'I wait')
  // A sub-agent says far more than anybody would look back over.
  for (let i = 0; i < 150; i++) {
    say('call-1', `theirs-${i}`, `look ${i}`)
    finish('call-1', `theirs-${i}`, `look ${i}`)
  }
  say('call-1', 'last', 'and the')
  await vi.waitFor(() =>
    expect(saidIn(file()).map(({ block, parent }) => [block, parent])).toEqual([
      ['mine', null],
      ['last', 'call-1'],
    ]),
  )
  finish('call-1', 'last', 'and the end')
  finish(null, 'mine', 'I waited')
  await vi.waitFor(() => expect(file()).toBe(''))
  await one.goDown('over')
  await one.over
})

test('tend() keeps its file in bounds while a block stays open, and loses nothing of what is', async () => {
  const { one, file, say, finish } = await tended()
  say(null, 'mine', 'I wait')
  let longest = 0
  for (let i = 0; i < 40; i++) {
    say('call-1', `theirs-${i}`, 'x'.repeat(500_000))
    longest = Math.max(longest, file().length)
    finish('call-1', `theirs-${i}`, 'x'.repeat(500_000))
    await new Promise(setImmediate)
  }
  say('call-1', 'last', 'and the')
  expect(longest).toBeLessThan(7_000_000)
  expect(saidIn(file()).map(({ block, text }) => [block, text])).toEqual([
    ['mine', 'I wait'],
    ['last', 'and the'],
  ])
  await one.goDown('over')
  await one.over
})
