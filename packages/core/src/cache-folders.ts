/** What sessions of one workspace share of what they download, each kind in a folder of its own: archives, and what tools need to find
 *  them again. Deliberately absent: whatever a tool runs straight from where it keeps it (what npx, Gradle and Maven fetch, Go's own
 *  toolchains) and every repository, since git runs what its settings say. */
export const cacheFolders = {
  npm: 'what npm has downloaded',
  yarn: 'what Yarn has downloaded',
  pip: 'what pip has downloaded, and wheels that it made',
  cargo: 'crates',
  go: 'modules of Go',
} as const satisfies Record<string, string>
