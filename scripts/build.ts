// Bundles each process of the product into one file under dist/. Only native code and the agent stay outside.
import { rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'rolldown'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')

const programs = {
  daemon: 'packages/daemon/src/main.ts',
  keeper: 'packages/keeper/src/main.ts',
  gate: 'packages/gate/src/main.ts',
  doctor: 'packages/cli/src/doctor-main.ts',
  forwarder: 'packages/keeper/src/forwarder.ts',
  cli: 'packages/cli/src/main.ts',
} as const

const external = ['better-sqlite3']

await rm(join(root, 'dist'), { recursive: true, force: true })
/** Which packages of others each program contains, for the test that counts them. */
const contents: Record<string, readonly string[]> = {}
// The command line goes last: its file says that everything before it is there.
for (const [name, input] of Object.entries(programs)) {
  const { output } = await build({
    input: join(root, input),
    platform: 'node',
    external: (id) => external.some((one) => id === one || id.startsWith(`${one}/`)),
    logLevel: 'warn',
    output: { file: join(root, 'dist', `${name}.mjs`), format: 'esm', codeSplitting: false },
  })
  const modules = output.flatMap((chunk) => (chunk.type === 'chunk' ? chunk.moduleIds : []))
  contents[name] = [...new Set(modules.flatMap((id) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(id)?.[1] ?? []))].toSorted()
}
await writeFile(join(root, 'dist', 'contents.json'), `${JSON.stringify(contents, null, 2)}\n`)
