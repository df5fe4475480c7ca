import { cpSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { npmRegistry } from '../registries/npm.ts'
import { type Registries, serveRegistries } from '../registries/registries.ts'
import { giveTo } from './host.ts'
import { type Installation, installation, isRoot, outputsOf, script, someone } from './installation.ts'

const scratch = mkdtempSync(join(tmpdir(), 'ah-e2e-caches-'))
let servers: Registries
let it: Installation

beforeAll(async () => {
  servers = await serveRegistries(scratch, [npmRegistry(scratch)])
  it = await installation({
    config: `net_ca: ${servers.caPath}\n${servers.mirrors}`,
    policy: 'rules:\n  - { on: net, preset: npm, effect: allow }\n',
  })
})
afterAll(async () => {
  await it[Symbol.asyncDispose]()
  await servers[Symbol.asyncDispose]()
  rmSync(scratch, { recursive: true })
})

const typed = (command: string) => script({ tool_use: 'Bash', input: { command } }, { text: 'done' })
/** Beside what npm asks about itself. */
const asked = () => servers.seen.map(({ path }) => path).filter((path) => path !== '/npm')
const install = 'npm ci --no-audit --no-fund >/dev/null; node -p "require(\'from-npm\')"'

test('what one session of a folder has downloaded, the next one has; a session of another folder asks for it again', async () => {
  const [folder, other] = [it.workspace(), it.workspace()]
  const first = await it.run(typed('npm init -y >/dev/null; npm install --no-audit --no-fund from-npm >/dev/null; ls'), {
    workspace: folder,
  })
  expect(existsSync(join(folder, 'package-lock.json')), outputsOf(first.events)).toBe(true)
  for (const file of ['package.json', 'package-lock.json']) cpSync(join(folder, file), join(other, file))
  if (isRoot) giveTo(other, someone)

  rmSync(join(folder, 'node_modules'), { recursive: true })
  servers.seen.length = 0
  const second = await it.run(typed(install), { workspace: folder })
  expect(outputsOf(second.events)).toContain('npm brought this')
  expect(asked()).toEqual([])

  const third = await it.run(typed(install), { workspace: other })
  expect(outputsOf(third.events)).toContain('npm brought this')
  expect(asked()).toEqual(['/from-npm/-/from-npm-1.2.3.tgz'])

  const { out } = await it.cli(['cache', 'list', '--json'])
  expect((JSON.parse(out) as { workspace: string }[]).map(({ workspace }) => workspace).toSorted()).toEqual(
    [folder, other].toSorted(),
  )
  for (const { session } of [first, second, third]) await it.cli(['stop', session.id])
  expect((await it.cli(['cache', 'clear'])).out).toContain('2 caches are cleared')
}, 180_000)
