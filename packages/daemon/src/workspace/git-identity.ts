import type { KeeperStart } from '@anchorhold/protocol/keeper-start'
import { execFile } from 'node:child_process'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'

type Identity = KeeperStart['policy']['git_identity']

/** Who commits are by that are made in a cell: the owner. Only the owner's own configuration is asked, never a repository's, and it is asked
 *  again when its files have changed: a first prompt would wait for the process. */
export function gitIdentity(env: Readonly<Record<string, string | undefined>>): () => Promise<Identity> {
  let known: { readonly of: string; readonly identity: Promise<Identity> } | null = null
  return () => {
    const of = globalFiles(env).map(seen).join('\n')
    if (known?.of !== of) known = { of, identity: of.trim() === '' ? Promise.resolve(null) : ask(env).catch(unasked) }
    return known.identity
  }
  /** There is no git, or no room for a process: it may be there the next time. */
  function unasked(): null {
    known = null
    return null
  }
}

/** Where git looks for what it calls global, git-config(1). */
function globalFiles({ GIT_CONFIG_GLOBAL: only, HOME, XDG_CONFIG_HOME }: Readonly<Record<string, string | undefined>>): string[] {
  if (only !== undefined) return [only]
  const base = XDG_CONFIG_HOME || (HOME && join(HOME, '.config'))
  return [...(base ? [join(base, 'git/config')] : []), ...(HOME ? [join(HOME, '.gitconfig')] : [])]
}

function seen(file: string): string {
  try {
    const { dev, ino, size, mtimeMs, ctimeMs } = statSync(file)
    return [file, dev, ino, size, mtimeMs, ctimeMs].join(' ')
  } catch {
    return '' // there is none
  }
}

const wanted = '^user\\.(name|email)$'

async function ask(env: Readonly<Record<string, string | undefined>>): Promise<Identity> {
  try {
    const options = { cwd: '/', env: { ...env } }
    const { stdout } = await promisify(execFile)('git', ['config', '--global', '--null', '--get-regexp', wanted], options)
    // The last one counts.
    const found = Object.fromEntries(stdout.split('\0').map((entry) => entry.split(/\n(.*)/s, 2) as [string, string?]))
    const [name = '', email = ''] = ['user.name', 'user.email'].map((key) => found[key]?.trim())
    return name === '' || email === '' ? null : { name, email }
  } catch (error) {
    // What git itself said holds until the files change.
    if (typeof (error as { code?: unknown }).code === 'number') return null
    throw error
  }
}
