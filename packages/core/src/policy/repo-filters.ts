import { Failure } from '@anchorhold/protocol/failures'
import type { RepoFilter } from '@anchorhold/protocol/sessions'
import type { EffectivePolicy } from './effective.ts'

/** Secrets by the names that tools give them. A name without a slash is looked for everywhere. */
export const standardNames = {
  hide: [
    ...['.env', '.env.*', '*.env', '.envrc', '*.pem', '*.key', '*.p12', '*.pfx', '*.jks', '*.keystore', '*.kdbx', '*.ppk'],
    ...['id_rsa', 'id_dsa', 'id_ecdsa', 'id_ed25519', 'id_ecdsa_sk', 'id_ed25519_sk', '.ssh', '.gnupg'],
    ...['credentials.json', 'client_secret*.json', 'service-account*.json', '.git-credentials', '.netrc', '_netrc', '.pypirc'],
    ...['secrets.yaml', 'secrets.yml', 'secrets.json', 'secrets.toml', '.vault-token', '.htpasswd', '.pgpass', '.my.cnf'],
    ...['**/.aws/credentials', '**/.docker/config.json', '**/.kube/config', '**/.config/gh/hosts.yml', '**/.cargo/credentials*'],
  ],
  // Templates without values, and public halves.
  show: ['.env.example', '.env.sample', '.env.template', '.env.dist', '.env.defaults', '*.pub'],
} as const

const hides = { none: 0, standard: 1, strict: 2 } as const

/** The stricter of what is asked for and what the policies require; null where that is what is asked for, or what is usual.
 *  Of two lists of patterns nobody can say which that is. */
export function filterFor(
  usual: RepoFilter,
  asked: RepoFilter | undefined,
  { repoFilters }: Pick<EffectivePolicy, 'repoFilters'>,
): RepoFilter | null {
  let chosen = asked ?? usual
  for (const required of repoFilters) {
    if (JSON.stringify(chosen) === JSON.stringify(required)) continue
    if (typeof chosen === 'string' && typeof required === 'string') {
      if (hides[chosen] >= hides[required]) continue
      if (asked === undefined) {
        chosen = required
        continue
      }
    } else if (asked === undefined && chosen === usual) {
      chosen = required
      continue
    }
    throw new Failure(
      'forbidden',
      `Cannot have a cell with the repo_filter ${JSON.stringify(chosen)}: the policy requires ${JSON.stringify(required)}`,
      {
        hint: 'Leave repo_filter out, or ask for what the policy requires',
      },
    )
  }
  return chosen === (asked ?? usual) ? null : chosen
}

/** Why a filter is not enough for the policies; null where it is. */
export function filterRefusal(asked: RepoFilter, { repoFilters }: Pick<EffectivePolicy, 'repoFilters'>): string | null {
  const required = repoFilters.find((one) =>
    typeof asked === 'string' && typeof one === 'string'
      ? hides[asked] < hides[one]
      : JSON.stringify(asked) !== JSON.stringify(one),
  )
  return required === undefined ? null : `repo_filter ${JSON.stringify(asked)}: the policy requires ${JSON.stringify(required)}`
}

/** Refuses a filter of one's own with a pattern that no path can fit: it would hide nothing, and say nothing. */
export function requirePatterns(filter: RepoFilter | undefined): void {
  if (filter === undefined || typeof filter === 'string') return
  for (const pattern of [...filter.denylist, ...filter.allowlist]) {
    const refusal = patternRefusal(pattern)
    if (refusal === null) continue
    const [why, hint] = refusal
    throw new Failure('bad_request', `Cannot use the pattern "${pattern}" in a filter: ${why}`, { hint })
  }
}

/** Why nothing below a workspace fits a pattern, and what to write instead. */
function patternRefusal(pattern: string): readonly [why: string, hint: string] | null {
  const below = 'Write it as it is seen from the workspace: private/notes.txt'
  if (pattern.startsWith('/')) return ['it begins with a slash, and paths are below the workspace', below]
  if (pattern.endsWith('/')) return ['it ends with a slash', 'Leave that out: a folder goes by its name, with all that is in it']
  const names = pattern.replace(/^\.\//, '').split('/')
  if (names.some((name) => ['', '.', '..'].includes(name))) return ['it does not go straight down', below]
  const open = openIn(pattern)
  if (open === '\\') return ['a backslash is its last character', 'Write \\\\ for a backslash']
  if (open !== null) return [`"${open}" is never closed`, `Write \\${open} where the character itself is meant`]
  const backwards = pattern.match(/\\.|\[[^\]]+\]/gs)?.find((part) => part.startsWith('[') && !isClass(part))
  return backwards === undefined ? null : [`"${backwards}" fits no character`, 'Write [a-z], the lower end first']
}

function isClass(text: string): boolean {
  try {
    return new RegExp(text) instanceof RegExp
  } catch {
    return false
  }
}

/** The first character that needs another one behind it, and has none. */
function openIn(pattern: string): string | null {
  const closes = { '{': '}', '(': ')' } as const
  const open: ('{' | '(')[] = []
  for (let at = 0; at < pattern.length; at++) {
    const char = pattern[at]!
    if (char === '\\' && ++at === pattern.length) return char
    if (char === '[') {
      // The first one inside is a character like any other.
      const end = pattern.indexOf(']', at + (/^\[[!^]/.test(pattern.slice(at)) ? 3 : 2))
      if (end === -1) return char
      at = end
    } else if (char === '{' || char === '(') open.push(char)
    else if (open.length > 0 && char === closes[open.at(-1)!]) open.pop()
  }
  return open[0] ?? null
}
