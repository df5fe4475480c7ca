import { bytes, content, digest, type Registry, tableRegistry } from './registry.ts'

const host = 'repo.maven.apache.org'

/** A repository with one parent project: what Maven resolves by itself, before any plugin. */
export function mavenRegistry(): Registry {
  const pom = Buffer.from(
    '<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId><artifactId>parent</artifactId>' +
      '<version>1.2.3</version><packaging>pom</packaging></project>\n',
  )
  const at = `${host}/maven2/org/example/parent/1.2.3/parent-1.2.3.pom`
  return tableRegistry(
    [host],
    new Map([
      [at, bytes(pom)],
      [`${at}.sha1`, content('text/plain', digest('sha1', pom))],
    ]),
  )
}

/** A project that cannot be read without it. */
export const mavenProject = `<project><modelVersion>4.0.0</modelVersion>
<parent><groupId>org.example</groupId><artifactId>parent</artifactId><version>1.2.3</version><relativePath/></parent>
<artifactId>child</artifactId><packaging>pom</packaging>
</project>
`
