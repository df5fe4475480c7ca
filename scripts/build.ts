// Bundles each process of the product into one file under dist/. Only native code and the agent stay outside.
import { rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'rolldown'
import { build as buildWeb } from 'vite'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')

const programs = {
  daemon: 'packages/daemon/src/main.ts',
  keeper: 'packages/keeper/src/main.ts',
  gate: 'packages/gate/src/main.ts',
  doctor: 'packages/cli/src/doctor-main.ts',
  images: 'packages/cli/src/images/images.ts',
  disk: 'packages/cli/src/disk/disk.ts',
  reap: 'packages/keeper/src/reap-main.ts',
  launcher: 'packages/cli/src/launcher/launch.ts',
  policy: 'packages/cli/src/launcher/check-policy.ts',
  prove: 'test/attacks/prove-main.ts',
  forwarder: 'packages/keeper/src/forwarder/forwarder.ts',
  reader: 'packages/keeper/src/reader/reader.ts',
  inside: 'packages/keeper/src/cells/inside/inside.ts',
  cli: 'packages/cli/src/main.ts',
} as const

const external = ['better-sqlite3', '@node-rs/argon2', '@simplewebauthn/server']

/** An `import` of a built-in module reads each of its exports, and some of those bring a lot with them: `node:http` a whole
 *  WebSocket client, which is a good part of the start and of the memory of a small process. Taken this way, an export is read
 *  by whoever uses it. */
const leanBuiltins = {
  name: 'lean-builtins',
  resolveId: (id: string) => (/^(node:)?(https?|crypto)$/.test(id) ? `\0${id.startsWith('node:') ? id : `node:${id}`}` : null),
  load(id: string) {
    if (!id.startsWith('\0node:')) return null
    const name = id.slice(1)
    const plain = Object.entries(Object.getOwnPropertyDescriptors(process.getBuiltinModule(name)))
      .filter(([key, { get }]) => get === undefined && /^[A-Za-z_$][\w$]*$/.test(key) && key !== 'default')
      .map(([key]) => key)
    return `const it = process.getBuiltinModule('${name}')\nexport default it\nexport const { ${plain.join(', ')} } = it`
  },
}

await rm(join(root, 'dist'), { recursive: true, force: true })
/** Which packages of others each program contains, for the test that counts them. */
const contents: Record<string, readonly string[]> = {}
await buildWeb({ configFile: join(root, 'packages/web/vite.config.ts') })
// The command line goes last: its file says that everything before it is there.
for (const [name, input] of Object.entries(programs)) {
  const { output } = await build({
    input: join(root, input),
    platform: 'node',
    external: (id) => external.some((one) => id === one || id.startsWith(`${one}/`)),
    logLevel: 'warn',
    plugins: [leanBuiltins],
    output: { file: join(root, 'dist', `${name}.mjs`), format: 'esm', codeSplitting: false },
  })
  const modules = output.flatMap((chunk) => (chunk.type === 'chunk' ? chunk.moduleIds : []))
  contents[name] = [...new Set(modules.flatMap((id) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(id)?.[1] ?? []))].toSorted()
}
await writeFile(join(root, 'dist', 'contents.json'), `${JSON.stringify(contents, null, 2)}\n`)
