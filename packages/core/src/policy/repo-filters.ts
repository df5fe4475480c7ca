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
