import type { Changes } from '@anchorhold/protocol/workspace'

/** Why nobody can tell what has changed in a workspace. */
export const withoutChanges = {
  no_repository: 'This workspace is not a git repository',
  no_git: 'There is no git in this cell',
  unreadable: 'git could not read this repository',
} as const satisfies Record<Extract<Changes, { git: false }>['why'], string>
