import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { rehearsal, small, testGate } from './test-gate.ts'

test.each(['the folder', 'model.sock', 'net.sock'])(
  'windows whose sockets nobody finds any more, because %s was made anew, are opened again when the daemon tells of them',
  async (what) => {
    await using it = await testGate({ provider: rehearsal, network: 'proxy_only', budget_nanos: 1_000_000_000 })
    expect(readdirSync(it.folder)).toEqual(['model.sock', 'net.sock'])
    rmSync(what === 'the folder' ? it.folder : join(it.folder, what), { recursive: true })
    mkdirSync(it.folder, { recursive: true })
    // Several at once, as a policy that changes just then would have it.
    const opened = await Promise.all([1, 2, 3].map(() => it.gate.handle(it.opened)))
    expect(opened.every((one) => (one as { authority: string | null }).authority !== null)).toBe(true)
    expect(readdirSync(it.folder)).toEqual(['model.sock', 'net.sock'])
    expect((await it.call('/v1/messages', small())).status).toBe(200)
    expect((await it.call('/v1/messages', small())).status).toBe(200)
    await it.call('/anchorhold/settle', '')
    expect(it.usage()).toHaveLength(2)
  },
)

test('windows close whatever has become of their folder, and are opened in the next one', async () => {
  await using it = await testGate({ provider: rehearsal, network: 'proxy_only' })
  // As root, the daemon makes it anew while they close, and for a moment it is root's alone. This stands for that: nothing in it is found.
  rmSync(it.folder, { recursive: true })
  writeFileSync(it.folder, '')
  await it.gate.handle({ do: 'close', session: it.opened.session })
  rmSync(it.folder)
  mkdirSync(it.folder)
  await it.gate.handle(it.opened)
  expect((await it.call('/v1/messages', small())).status).toBe(200)
  await it.gate.handle({ do: 'close', session: it.opened.session })
  expect(readdirSync(it.folder)).toEqual([])
})

test('the certificate of its authority is made where a cell is about to be, and a net window is there', async () => {
  await using it = await testGate({ provider: rehearsal, network: 'proxy_only' })
  const answer = (how: object) => it.gate.handle({ ...it.opened, ...how })
  expect(await answer({})).toEqual({ authority: expect.stringContaining('BEGIN CERTIFICATE') as string })
  expect(await answer({ certificate: false })).toEqual({ authority: null })
  expect(await answer({ network: 'none' })).toEqual({ authority: null })
})

test('a session of which one window cannot be opened has none', async () => {
  await using it = await testGate({ provider: rehearsal })
  await it.gate.handle({ do: 'close', session: it.opened.session })
  // Nothing can be opened in its place.
  mkdirSync(join(it.folder, 'net.sock', 'in-the-way'), { recursive: true })
  await expect(it.gate.handle({ ...it.opened, network: 'proxy_only' })).rejects.toThrow('Cannot open the windows')
  expect(existsSync(it.socketPath)).toBe(false)
  rmSync(join(it.folder, 'net.sock'), { recursive: true })
  await it.gate.handle({ ...it.opened, network: 'proxy_only' })
  expect((await it.call('/v1/messages', small())).status).toBe(200)
})

test('a session whose lease was closed by a call that cost too much spends nothing more until a budget is set', async () => {
  await using it = await testGate({ provider: rehearsal, budget_nanos: 1_000_000_000, closed: true })
  expect((await it.call('/v1/messages', small())).status).toBe(403)
  await it.gate.handle({ do: 'budget', session: it.opened.session, budget_nanos: 2_000_000_000 })
  expect((await it.call('/v1/messages', small())).status).toBe(200)
})

test('a dialect that the gate does not speak is refused before anything is changed', async () => {
  await using it = await testGate({ provider: rehearsal })
  await expect(it.gate.handle({ ...it.opened, dialect: 'latin', paused: true })).rejects.toThrow('this gate speaks messages')
  expect((await it.call('/v1/messages', small())).status).toBe(200)
})

test('a cap that is told while windows are being opened is not undone by them', async () => {
  await using it = await testGate({ provider: rehearsal })
  const owner = (life: number) => ({
    ...{ simulated: true, at: Date.now(), to: 0 },
    nodes: [
      {
        ...{ node: 'owner' as const, caps: { life, day: null, tick: null }, tick_ms: 3_600_000, asks: false },
        spent: { life: 0, day: 0, tick: 0 },
      },
    ],
  })
  const opening = it.gate.handle({ ...it.opened, ledger: owner(1_000_000_000) })
  const lowered = it.gate.handle({ do: 'ledger', ...owner(0) })
  await Promise.all([opening, lowered])
  expect((await it.call('/v1/messages', small())).status).toBe(403)
})

test('a turn that ends while its windows are just being opened is told what it has cost', async () => {
  await using it = await testGate({ provider: rehearsal, network: 'proxy_only' })
  await it.gate.handle({ do: 'close', session: it.opened.session })
  const opening = it.gate.handle(it.opened)
  const settled = async (): Promise<number> => {
    try {
      return (await it.call('/anchorhold/settle', '')).status
    } catch (error) {
      if (!['ENOENT', 'ECONNREFUSED'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
      await new Promise((resolve) => setImmediate(resolve))
      return settled()
    }
  }
  expect(await settled()).toBe(200)
  await opening
})
