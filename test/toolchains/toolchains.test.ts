import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Installation, installation, outputsOf, script } from '../e2e/installation.ts'
import { commands, shown } from '../registries/commands.ts'
import { cratesRegistry } from '../registries/crates.ts'
import { forge } from '../registries/forge.ts'
import { goRegistry } from '../registries/go.ts'
import { mavenRegistry } from '../registries/maven.ts'
import { npmRegistry } from '../registries/npm.ts'
import { type Registries, serveRegistries } from '../registries/registries.ts'

const scratch = mkdtempSync(join(tmpdir(), 'ah-toolchains-'))
let servers: Registries
let it: Installation

beforeAll(async () => {
  const github = forge(scratch, null)
  github.repository('somebody/public', { README: 'cloned through the window\n' })
  const index = join(github.folder, 'rust-lang/crates.io-index.git')
  const registries = [npmRegistry, goRegistry, mavenRegistry].map((make) => make(scratch))
  servers = await serveRegistries(scratch, [github, cratesRegistry(scratch, index), ...registries])
  const presets = ['git', 'npm', 'crates', 'go', 'maven'].map((name) => `  - { on: net, preset: ${name}, effect: allow }\n`)
  it = await installation({ config: `net_ca: ${servers.caPath}\n${servers.mirrors}`, policy: `rules:\n${presets.join('')}` })
})
afterAll(async () => {
  await it[Symbol.asyncDispose]()
  await servers[Symbol.asyncDispose]()
  rmSync(scratch, { recursive: true })
})

const typed = (command: string) => script({ tool_use: 'Bash', input: { command, timeout: 300_000 } }, { text: 'done' })

test.each(['cargo', 'go', 'maven'] as const)('%s finds its registry by its real name, with nothing set up', async (name) => {
  const { events } = await it.run(typed(commands[name]))
  expect(outputsOf(events)).toContain(shown[name])
})

test.each(['container', 'gvisor'] as const)('on the rung %s curl, git and npm do', async (rung) => {
  const names = ['curl', 'git', 'npm'] as const
  const { events } = await it.run(typed(names.map((name) => `(${commands[name]})`).join('; ')), { rung })
  for (const name of names) expect(outputsOf(events), name).toContain(shown[name])
})
