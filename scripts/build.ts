// Bundles each process of the product under dist/. Only native code and the agent stay outside.
import { rm, writeFile } from 'node:fs/promises'
import { basename, dirname, extname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'rolldown'
import { build as buildWeb } from 'vite'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')

const programs = {
  daemon: 'packages/daemon/src/main.ts',
  keeper: 'packages/keeper/src/main.ts',
  gate: 'packages/gate/src/main.ts',
  rehearsal: 'packages/rehearsal/src/main.ts',
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
  watcher: 'packages/keeper/src/cells/limits/watch-main.ts',
  cli: 'packages/cli/src/main.ts',
} as const

/** What is not copied to another place may be more than one file: what it asks for by `import()` is one of its own, which a start
 *  does not wait for. */
const inPieces: readonly string[] = ['daemon', 'cli']

/** Every start of a cell waits for this one, and a kernel like gVisor's takes longer over a module than over a script. */
const waitedFor = 'inside'

const external = ['@node-rs/argon2', '@simplewebauthn/server']

/** V8 keeps a program's text, with two bytes for every character as soon as one of them needs two. */
function inAscii(code: string): string {
  if (/(?<!\\)\\(\\\\)*[^\0-\x7f]/.test(code)) throw new Error('A character beyond ASCII has a backslash before it')
  return code.replaceAll(/[^\0-\x7f]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** SQLite's own JavaScript is nine small files, and it looks for its native code by way of a report on the whole process. Here that
 *  is found by what it is called. */
const leanSqlite = {
  name: 'lean-sqlite',
  resolveId: (id: string) => (id === 'better-sqlite3' ? '\0better-sqlite3' : null),
  load(id: string) {
    if (id !== '\0better-sqlite3') return null
    const lib = join(root, 'node_modules/better-sqlite3/lib')
    return `
      import { createRequire } from 'node:module'
      import { packageFolder } from '${join(root, 'packages/daemon/src/processes/package-folder.ts')}'
      import createDatabase from '${lib}/database.js'
      import SqliteError from '${lib}/sqlite-error.js'
      const require = createRequire(import.meta.url)
      const native = () => require(\`\${packageFolder('better-sqlite3')}/prebuilds/\${process.platform}-\${process.arch}.node\`)
      export default Object.assign(createDatabase(native, false), { SqliteError })`
  },
}

await rm(join(root, 'dist'), { recursive: true, force: true })
/** Which packages of others each program contains, and which modules each of its files and what that begins with, for the tests that
 *  look at them. */
const contents: Record<string, readonly string[]> = {}
const pieces: Record<string, { readonly imports: readonly string[]; readonly modules: readonly string[] }> = {}
/** What a file is called that begins with this module: by its own name, or by its package's. */
const pieceOf = (id: string) => /node_modules\/(?:@[^/]+\/)?([^/]+)/.exec(id)?.[1]?.toLowerCase() ?? basename(id, extname(id))
await buildWeb({ configFile: join(root, 'packages/web/vite.config.ts') })
// The command line goes last: its file says that everything before it is there.
for (const [name, input] of Object.entries(programs)) {
  const format = name === waitedFor ? 'cjs' : 'esm'
  const { output } = await build({
    input: join(root, input),
    platform: 'node',
    external: (id) => external.some((one) => id === one || id.startsWith(`${one}/`)),
    logLevel: 'warn',
    plugins: [leanSqlite],
    write: false,
    experimental: { attachDebugInfo: 'none' },
    // A schema that nobody uses is not built.
    treeshake: { manualPureFunctions: ['z'] },
    output: {
      entryFileNames: `${name}.${format === 'cjs' ? 'cjs' : 'mjs'}`,
      // Beside the program, so that what it says of its own place holds for its pieces too.
      chunkFileNames: ({ isDynamicEntry, facadeModuleId }) =>
        `${name}-${isDynamicEntry && facadeModuleId ? pieceOf(facadeModuleId) : 'shared'}.mjs`,
      format,
      comments: false,
      codeSplitting: inPieces.includes(name),
    },
  })
  for (const chunk of output) {
    if (chunk.type !== 'chunk') continue
    await writeFile(join(root, 'dist', chunk.fileName), inAscii(chunk.code))
    pieces[chunk.fileName] = { imports: chunk.imports, modules: chunk.moduleIds.map((id) => relative(root, id)) }
  }
  const modules = output.flatMap((chunk) => (chunk.type === 'chunk' ? chunk.moduleIds : []))
  contents[name] = [...new Set(modules.flatMap((id) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(id)?.[1] ?? []))].toSorted()
}
await writeFile(join(root, 'dist', 'contents.json'), `${JSON.stringify({ packages: contents, pieces }, null, 2)}\n`)
