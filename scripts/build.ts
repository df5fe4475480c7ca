// Bundles each process of the product into one file under dist/. Only native code and the agent stay outside.
import { rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'rolldown'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')

const programs = {
  daemon: 'packages/daemon/src/main.ts',
  keeper: 'packages/keeper/src/main.ts',
  gate: 'packages/gate/src/main.ts',
  doctor: 'packages/keeper/src/doctor-main.ts',
  forwarder: 'packages/keeper/src/forwarder.ts',
  cli: 'packages/cli/src/main.ts',
} as const

const external = ['better-sqlite3']

await rm(join(root, 'dist'), { recursive: true, force: true })
for (const [name, input] of Object.entries(programs)) {
  await build({
    input: join(root, input),
    platform: 'node',
    external: (id) => external.some((one) => id === one || id.startsWith(`${one}/`)),
    logLevel: 'warn',
    output: { file: join(root, 'dist', `${name}.mjs`), format: 'esm', codeSplitting: false },
  })
}
