import { exitOfProof, printCard } from '@anchorhold/cli/commands/prove'
import { terminal } from '@anchorhold/cli/terminal'
import type { CellDriver } from '@anchorhold/keeper/cells/cell'
import { fakeCells } from '@anchorhold/keeper/cells/fake-cell'
import { ProofReport } from '@anchorhold/protocol/proof'
import type { Rung } from '@anchorhold/protocol/rungs'
import { Writable } from 'node:stream'
import { expect, test } from 'vitest'
import { type Attack, judge, judgeByKernel, notApplicable } from './attack.ts'
import { makeGround } from './ground.ts'
import { attacks } from './index.ts'
import { prove } from './prove.ts'

/** A driver whose cells answer everything the same way, whatever was asked of them. */
const answering = (answer: string, rung: Rung = 'bwrap'): CellDriver => ({ ...fakeCells({ run: () => answer }), rung })

const knock: Attack = {
  name: 'knock',
  promise: 'Nobody opens',
  guard: 'a door',
  async *run(on) {
    const under = await on.cell()
    yield judge('at the front', (await under.sh('knock')).lines, ['refused'])
    yield notApplicable('at the back', 'there is none')
  },
}
const attack = (name: string, run: Attack['run']): Attack => ({ name, promise: `${name} is stopped`, guard: 'something', run })

const proving = (list: readonly Attack[], drivers: readonly CellDriver[]) =>
  prove({
    ...{ version: '1.2.3', at: Date.UTC(2026, 0, 2, 3, 4), attacks: list, drivers, timeoutMs: 200 },
    ...{ launcher: ['/bin/false'], tell: () => {} },
  }).then((report) => ProofReport.parse(report))

function cardOf(report: ProofReport): string {
  let text = ''
  const sink = new Writable({ write: (chunk, _, done) => ((text += chunk), done()) }) as unknown as NodeJS.WriteStream
  printCard(terminal(sink, sink), report)
  return text
}

test('prove() counts what was refused as blocked, and the exit code is 0', async () => {
  const report = await proving([knock], [answering('refused\n')])
  expect(report.assaults[0]?.findings.map(({ verdict }) => verdict)).toEqual(['blocked', 'not applicable'])
  expect(exitOfProof(report)).toBe(0)
  const card = cardOf(report)
  expect(card).toMatch(/^What the cells of this machine stop, 2026-01-02T03:04Z\nanchorhold 1\.2\.3 · kernel \S+ \w+ · /)
  expect(card).toMatch(/^knock {2}■ blocked$/m)
  expect(card).toContain('2 checks on 1 of 1 rung: 1 blocked, 0 open, 0 not run, 1 not applicable.')
})

test('prove() shows what is open with what was seen, made printable, and the exit code is 1', async () => {
  const report = await proving([knock], [answering('\u001b[2Jcome in\n')])
  expect(exitOfProof(report)).toBe(1)
  const card = cardOf(report)
  expect(card).toMatch(/^knock {2}□ OPEN$/m)
  expect(card).toMatch(
    /□ OPEN {2}bwrap: knock, at the front\n {4}.*come in.*instead of \["refused"\]\n {4}promised: Nobody opens/,
  )
  expect(card).not.toContain('\u001b')
})

const nothing: AsyncIterable<never> = { [Symbol.asyncIterator]: () => ({ next: async () => ({ done: true, value: null }) }) }
const stuck: AsyncIterable<never> = { [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}) }) }
const refusing: AsyncIterable<never> = { [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(new Error('no cell')) }) }

test.each([
  ['cannot be carried out', () => refusing],
  ['does not end', () => stuck],
  ['finds nothing', () => nothing],
] as const)('prove() never counts an attack as blocked that %s', async (_, run) => {
  const report = await proving([attack('broken', run)], [answering('refused\n')])
  expect(report.assaults[0]?.findings).toMatchObject([{ verdict: 'error' }])
  expect(exitOfProof(report)).toBe(1)
  expect(cardOf(report)).toMatch(/^broken {2}\? not run$/m)
})

test('prove() never counts what it found before it broke off for the whole', async () => {
  const half = attack('half', async function* (on) {
    yield* knock.run(on)
    throw new Error('the cell has ended')
  })
  const report = await proving([half], [answering('refused\n')])
  expect(exitOfProof(report)).toBe(1)
  expect(cardOf(report)).toMatch(/^half {2}\? not run$/m)
})

test('prove() tells a rung that is not there from one that held, and attacks no rung that is no wall', async () => {
  const missing = async () => [{ what: 'the engine is not installed', remedy: 'apt-get install engine' }]
  const report = await proving([knock], [{ ...answering('refused\n'), missing }, answering('', 'none')])
  expect(report).toMatchObject({ assaults: [], not_attacked: ['none'] })
  expect(exitOfProof(report)).toBe(7)
  const card = cardOf(report)
  expect(card).toMatch(/^knock {2}· not available$/m)
  expect(card).toContain('to fix it: apt-get install engine')
  expect(card).toContain('nothing is proven')
  expect(card).toContain('not attacked, because it is no wall: none')
})

test('every attack is open or not run on cells that answer nothing, or as if everything had been done', async () => {
  for (const answer of ['', 'DONE\n']) {
    const report = await proving(attacks, [answering(answer)])
    const taken = report.assaults.filter(({ findings }) =>
      findings.every(({ verdict }) => verdict === 'blocked' || verdict === 'not applicable'),
    )
    expect(taken.map(({ attack: name }) => name)).toEqual([])
  }
})

test('judge() refuses to expect nothing', () => {
  for (const nothing of [[], {}, '', null, undefined]) expect(() => judge('x', nothing, nothing)).toThrow('expects nothing')
})

test('judgeByKernel() excuses only a kernel of the cell’s own, and only one that answered', () => {
  const on = (rung: string) =>
    ({ ...makeGround(answering(''), { launcher: ['x'] }), kernel: rung === 'microvm' ? 'own' : 'host' }) as const
  const verdict = (rung: string, seen: readonly string[]) => judgeByKernel(on(rung), 'x', seen, ['refused']).verdict
  expect([
    verdict('bwrap', ['done']),
    verdict('microvm', ['done']),
    verdict('microvm', []),
    verdict('bwrap', ['refused']),
  ]).toEqual(['open', 'not applicable', 'open', 'blocked'])
})

test('no two attacks have one name, and each says what it is about', () => {
  expect(new Set(attacks.map(({ name }) => name)).size).toBe(attacks.length)
  for (const { promise, guard } of attacks) expect([promise.length > 20, guard.length > 10]).toEqual([true, true])
})
