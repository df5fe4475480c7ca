import { PassThrough } from 'node:stream'
import type { DoctorReport } from '@anchorhold/protocol/doctor'
import type { SessionId } from '@anchorhold/protocol/ids'
import { expect, test } from 'vitest'
import { terminal } from '../terminal.ts'
import { print, printHostNetworks } from './doctor.ts'

const found = { available: true, tried_at: 0, start_ms: 5, missing: [], limits: [] }
const kernel = { release: '25.0', arch: 'arm64', user_namespaces: false, seccomp: false, cgroups: 'none' } as const

function printed(rungs: DoctorReport['rungs']): string {
  const out = new PassThrough() as unknown as NodeJS.WriteStream & PassThrough
  print(terminal(out, out), { rungs, kernel, toolchains: [] })
  return String(out.read())
}

test('print() says of a rung that nobody has tried on real hardware that it is so', () => {
  const text = printed([
    { rung: 'bwrap', ...found },
    { rung: 'seatbelt', ...found },
  ])
  expect(text).toMatch(/^✓ seatbelt \(never tested on real hardware\)/m)
  expect(text).toMatch(/^✓ bwrap starts/m)
})

test('print() says which extras a container has, and what the others lack', () => {
  const extras = [
    { name: 'sudo' as const, available: true, missing: [] },
    { name: 'gpu' as const, available: false, missing: [{ what: 'no graphics processor', remedy: 'install one' }] },
  ]
  const text = printed([{ rung: 'container', ...found, extras }])
  expect(text).toMatch(/^ {4}sudo works$/m)
  expect(text).toMatch(/^ {4}gpu is not there\n {6}no graphics processor\n {6}to fix it: install one$/m)
})

test('printHostNetworks() names each session that has the network of the host, and how to end it', () => {
  const out = new PassThrough() as unknown as NodeJS.WriteStream & PassThrough
  const one = (id: string, network: 'host' | 'proxy_only', state: 'ready' | 'stopped' = 'ready') =>
    ({ id: id as SessionId, name: `\u001b[2J${id}`, network, state }) as const
  printHostNetworks(terminal(out, out), [one('ses_a', 'host'), one('ses_b', 'proxy_only'), one('ses_c', 'host', 'stopped')])
  const text = String(out.read())
  expect(text).toMatch(/^✗ ses_a has the network of the host .*\n.*to end it: anchorhold stop ses_a\n$/)
  expect(text).not.toContain('\u001b[2J')
})
