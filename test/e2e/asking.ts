import type { Event } from '@anchorhold/protocol/events'
import type { RequestId, SessionId } from '@anchorhold/protocol/ids'
import { randomUUID } from 'node:crypto'
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { keepersOf, processesOf, stillAlive } from './host.ts'
import { type Installation, installation, type InstallationOptions, until } from './installation.ts'
import { type Outside, outside } from './outside.ts'

/** The four kinds of things that are asked for. */
export const kinds = ['tool', 'net', 'host', 'spend'] as const
export type Kind = (typeof kinds)[number]

/** Asks the test edge for an action from inside a cell, and prints what it answers. */
const act = `
import { request } from 'node:http'
const [action, file] = process.argv.slice(2)
const call = request({ socketPath: '/run/windows/edge.sock', path: '/act', method: 'POST' }, async (response) => {
  for await (const part of response) process.stdout.write(part)
})
call.on('error', (error) => console.log('no answer: ' + error.message))
call.end(JSON.stringify({ action: JSON.parse(action), ...(file ? { file } : {}) }))
`
export const actCommand = (action: object, file = '') =>
  `/opt/anchorhold/forwarder/node act.mjs '${JSON.stringify(action)}' ${file}`.trim()

export const hostAction = { kind: 'host', program: 'deploy', params: { to: 'staging' } }

/** An installation in which every kind can be asked for: the net window stands before a server of ours, and the test edge for
 *  the window of host commands. */
export type Askable = { readonly it: Installation; readonly out: Outside } & AsyncDisposable

export async function askingInstallation({ policy = '', ...more }: InstallationOptions = {}): Promise<Askable> {
  const out = await outside()
  const it = await installation({
    env: { ANCHORHOLD_TEST_EDGE: '1' },
    config: 'spare_keeper: false\n',
    policy: `${policy}rules:\n${out.asks.join('\n')}\n`,
    ...more,
  })
  return {
    it,
    out,
    async [Symbol.asyncDispose]() {
      await it[Symbol.asyncDispose]()
      await out[Symbol.asyncDispose]()
    },
  }
}

/** A session whose agent waits for an answer of this kind. */
export type Asking = {
  readonly kind: Kind
  readonly session: SessionId
  readonly request: RequestId
  readonly workspace: string
  /** What it left behind each time that it really happened. */
  times(): Promise<number>
}

export type NetScheme = 'http' | 'https'
/** A call of its own, by a program that waits for its answer. */
export const curl = (out: Outside, scheme: NetScheme, path: string) => `curl -ksS ${out.url(scheme, path)}`

/** Starts a session and waits until what it wants is asked for. */
export async function ask(
  { it, out }: Askable,
  kind: Kind,
  { scheme = 'http', ...more }: { readonly scheme?: NetScheme; readonly policy?: string } = {},
): Promise<Asking> {
  const path = `/${randomUUID()}`
  const workspace = it.workspace({ 'act.mjs': act })
  const hostFile = join(workspace, '../deploy.sh')
  writeFileSync(hostFile, '#!/bin/sh\necho deployed\n')
  chmodSync(hostFile, 0o755)
  const text = {
    tool: 'run `echo done >> happened`',
    net: `run \`${curl(out, scheme, path)}\``,
    host: `run \`${actCommand(hostAction, hostFile)}\``,
    spend: 'say paid for',
  }[kind]
  const options = {
    tool: { autonomy: 'supervised' as const },
    net: {},
    host: {},
    spend: { spend: 'ask' as const, budget_micros: 1 },
  }[kind]
  const { id: session } = await it.api.createSession({ body: { workspace, ...options, ...more, prompt: { text } } })
  const opened = (await it.event(session, 0, ({ type }) => type === 'request.opened')) as Event & { type: 'request.opened' }
  expect(opened.body.action.kind).toBe(kind)
  return {
    kind,
    session,
    request: opened.body.id,
    workspace,
    async times() {
      if (kind === 'tool') return linesOf(join(workspace, 'happened'))
      if (kind === 'net') return out.times(path)
      const log = await it.log(session)
      if (kind === 'spend') return log.some(({ type }) => type === 'usage') ? 1 : 0
      return log.filter((event) => event.type === 'decision' && event.body.kind === kind && event.body.effect === 'allow').length
    },
  }
}

function linesOf(path: string): number {
  try {
    return readFileSync(path, 'utf8').trim().split('\n').length
  } catch {
    return 0
  }
}

export type Victim = 'keeper' | 'gate' | 'daemon' | 'all' | 'nobody'

/** Ends processes with SIGKILL, and brings back what nobody else does. */
export async function kill(it: Installation, victim: Victim): Promise<void> {
  const isGate = ({ argv }: { readonly argv: string }) => argv.includes('/gate.mjs')
  const daemon = (JSON.parse(readFileSync(join(it.state, 'daemon.json'), 'utf8')) as { pid: number }).pid
  const all = victim === 'all'
  // A keeper takes its cell along: only the keeper itself is killed.
  const keepers = victim === 'keeper' || all ? keepersOf(it.state) : []
  const gates = victim === 'gate' || all ? processesOf(it.state, isGate).filter(isGate) : []
  for (const pid of [
    ...keepers.filter(({ argv }) => argv.includes('/keeper.mjs')).map(({ pid }) => pid),
    ...gates.map(({ pid }) => pid),
    ...(victim === 'daemon' || all ? [daemon] : []),
  ]) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It has gone with another.
    }
  }
  await until(() => stillAlive([...keepers, ...gates]).length === 0)
  if (victim === 'gate')
    await until(() => processesOf(it.state, isGate).some((one) => isGate(one) && !gates.some(({ pid }) => pid === one.pid)))
  if (victim === 'daemon' || all) await it.up()
}

/** What must hold of every session, whatever happened to it. */
export function holdRequests(log: readonly Event[]): void {
  const of = <T extends Event['type']>(type: T) =>
    log.filter((event): event is Extract<Event, { type: T }> => event.type === type)
  const opened = of('request.opened').map(({ body }) => body.id)
  const answered = of('request.answered').map(({ body }) => body.id)
  expect(new Set(opened).size).toBe(opened.length)
  expect(new Set(answered).size).toBe(answered.length)
  const used = of('grant.used').map(({ body }) => body.request)
  const once = new Set(of('request.answered').flatMap(({ body }) => (body.answer.scope === 'session' ? [] : [body.id])))
  for (const id of used) expect(answered).toContain(id)
  expect(used.filter((id) => once.has(id)).length).toBe(new Set(used.filter((id) => once.has(id))).size)
  // What was answered is told.
  const told = new Set(of('request.told').map(({ body }) => body.id))
  for (const { body } of of('request.answered'))
    if (body.answer.decision !== 'withdrawn')
      expect({ id: body.id, told: told.has(body.id) }).toEqual({ id: body.id, told: true })
}
