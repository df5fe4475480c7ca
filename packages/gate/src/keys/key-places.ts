import { randomBytes } from 'node:crypto'
import { link, open, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { keyringNote } from '@anchorhold/core/places'
import { Failure } from '@anchorhold/protocol/failures'
import { z } from 'zod'
import { keyring, type KeyringProgram, secretTool, securityTool } from './keyring.ts'
import { keyBytes, readKey, readOrMakeKey } from './secrets.ts'

/** Where a key is kept, and beside it the next one while keys are being changed. */
export interface KeyPlace {
  key(): Promise<Uint8Array | null>
  next(): Promise<Uint8Array | null>
  /** The key, which is made where there has never been one. */
  keyOrNew(): Promise<Uint8Array>
  begin(key: Uint8Array): Promise<void>
  /** The next one takes the place of the key. */
  promote(): Promise<void>
  clear(): Promise<void>
}

/** A file that its user alone can read. */
export function fileKeys(path: string): KeyPlace {
  const nextPath = `${path}.next`
  return {
    key: () => readKey(path),
    next: () => readKey(nextPath),
    keyOrNew: () => readOrMakeKey(path),
    begin: (key) => writeKey(nextPath, key),
    async promote() {
      await rename(nextPath, path)
      await syncFolder(dirname(path))
    },
    async clear() {
      await Promise.all([rm(path, { force: true }), rm(nextPath, { force: true })])
    },
  }
}

/** Where the keys of a gate are, the place for new ones first: where `ANCHORHOLD_KEY_STORE` says, or else where they were last. */
export async function keyPlaces(options: KeyringOptions): Promise<readonly [KeyPlace, ...KeyPlace[]]> {
  const file = fileKeys(join(options.folder, 'key'))
  const store = options.env.ANCHORHOLD_KEY_STORE
  const ring = await keyringKeys(options, store === 'keyring')
  if (ring === null) return [file]
  return store === 'file' ? [file, ring] : [ring, file]
}

/** What a gate must know that was not started by the daemon: that the key is in a keyring, under which name, and how that is reached. */
const Note = z.strictObject({ account: z.string(), env: z.record(z.string(), z.string()) })

export type KeyringOptions = {
  readonly folder: string
  readonly env: Readonly<Record<string, string | undefined>>
  readonly program?: KeyringProgram
}

/** The keyring of the owner's session; null when no key was ever put there, and `wanted` does not ask for it.
 *  Invariant: a key that was made there once and is not found any more is an error, and no reason to make another. */
export async function keyringKeys({ folder, env, program }: KeyringOptions, wanted: boolean): Promise<KeyPlace | null> {
  const path = join(folder, keyringNote)
  const noted = await readFile(path, 'utf8').then(
    (text) => Note.parse(JSON.parse(text)),
    () => null,
  )
  if (noted === null && !wanted) return null
  const account = noted?.account ?? folder
  const reached = { ...noted?.env, ...reachedBy(env) }
  const ring = keyring(program ?? (process.platform === 'darwin' ? securityTool : secretTool), account, {
    PATH: '/usr/local/bin:/usr/bin:/bin',
    ...reached,
  })
  const note = () => writeFile(path, JSON.stringify({ account, env: reached }), { mode: 0o600 })
  return {
    key: () => ring.read('key'),
    next: () => ring.read('next'),
    async keyOrNew() {
      const found = await ring.read('key')
      if (found === null && noted !== null)
        throw new Failure(
          'gate_unavailable',
          'Cannot find the key in the keyring: it was put there once, and is not there any more',
          {
            hint: 'Unlock the keyring, or bring back the one that holds it; without it nothing that was sealed can be opened',
          },
        )
      const key = found ?? randomBytes(keyBytes)
      if (found === null) await ring.write('key', key)
      await note()
      return key
    },
    begin: (key) => ring.write('next', key),
    async promote() {
      const next = await ring.read('next')
      if (next === null) return
      // A crash in between leaves the same key twice.
      await ring.write('key', next)
      await ring.remove('next')
    },
    async clear() {
      await ring.remove('next')
      await ring.remove('key')
      await rm(path, { force: true })
    },
  }
}

const reachedBy = (env: Readonly<Record<string, string | undefined>>): Record<string, string> =>
  Object.fromEntries(
    ['DBUS_SESSION_BUS_ADDRESS', 'XDG_RUNTIME_DIR', 'HOME'].flatMap((name) =>
      env[name] === undefined ? [] : [[name, env[name]]],
    ),
  )

async function writeKey(path: string, key: Uint8Array): Promise<void> {
  const draft = `${path}.${randomBytes(6).toString('hex')}`
  const file = await open(draft, 'wx', 0o600)
  try {
    await file.writeFile(key)
    await file.sync()
    await link(draft, path)
  } finally {
    await file.close()
    await rm(draft)
  }
  await syncFolder(dirname(path))
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r')
  await handle.sync().finally(() => handle.close())
}
