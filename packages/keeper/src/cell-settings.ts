import { readFile, writeFile } from 'node:fs/promises'
import { netPort } from './agents/net-route.ts'
import { javaTrust, javaTrustPassword } from './java-trust.ts'
import { trustFile, trustFolder, trustInside } from './trust.ts'

/** What programs that look at no variable of everybody's must be told by a file of their own: apt, Java and git. The files lie beside
 *  whom to trust, where cells see them and cannot change them. */
const files = { apt: 'apt.conf', java: 'java.jks', git: 'gitconfig' } as const

/** Forges whose addresses for ssh are known, beside those that the owner names. */
const knownForges = ['github.com', 'gitlab.com', 'bitbucket.org', 'codeberg.org']

export async function writeSettings({
  folder,
  forges,
}: {
  readonly folder: string
  readonly forges: readonly string[]
}): Promise<void> {
  const write = (name: string, content: string | Buffer) => writeFile(`${trustFolder(folder)}/${name}`, content, { mode: 0o644 })
  const pem = await readFile(`${trustFolder(folder)}/${trustFile}`, 'utf8')
  await Promise.all([
    write(files.apt, `Acquire::https::CaInfo "${trustInside}/${trustFile}";\n`),
    write(files.java, javaTrust(pem, Date.now())),
    write(files.git, gitSettings([...new Set([...knownForges, ...forges])])),
  ])
}

/** What is written for ssh goes over HTTPS, because nothing else is carried. It takes the place of the system's own settings, which
 *  still count where there are any. */
const gitSettings = (hosts: readonly string[]): string =>
  [
    '[include]\n\tpath = /etc/gitconfig\n',
    ...hosts.map((host) => `[url "https://${host}/"]\n\tinsteadOf = git@${host}:\n\tinsteadOf = ssh://git@${host}/\n`),
  ].join('')

export function settingsEnvironment(folder: string): Readonly<Record<string, string>> {
  const java = [
    `-Djavax.net.ssl.trustStore=${folder}/${files.java}`,
    `-Djavax.net.ssl.trustStorePassword=${javaTrustPassword}`,
    '-Djavax.net.ssl.trustStoreType=JKS',
    ...['http', 'https'].map((scheme) => `-D${scheme}.proxyHost=127.0.0.1 -D${scheme}.proxyPort=${netPort}`),
  ]
  return {
    APT_CONFIG: `${folder}/${files.apt}`,
    JAVA_TOOL_OPTIONS: java.join(' '),
    GIT_CONFIG_SYSTEM: `${folder}/${files.git}`,
    // Nobody is there to be asked for a password.
    GIT_TERMINAL_PROMPT: '0',
    // Its own git does not look at whom else to trust.
    CARGO_NET_GIT_FETCH_WITH_CLI: 'true',
  }
}
