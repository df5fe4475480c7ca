import tailwindcss from '@tailwindcss/vite'
import react from '@vitejs/plugin-react'
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, constants } from 'node:zlib'
import { defineConfig, type Plugin } from 'vite'

const here = import.meta.dirname

/** What a phone keeps so that the app opens without a network: everything but what only colours code. */
const kept = (name: string) => !/assets\/(highlight|lang-)/.test(name) && !/-(cyrillic|greek|vietnamese|latin-ext)/.test(name)

/** The service worker is written last, as it lists the files that it keeps. */
const serviceWorker: Plugin = {
  name: 'service-worker',
  generateBundle(_, bundle) {
    const files = Object.keys(bundle)
      .filter((name) => name.startsWith('assets/') && kept(name))
      .toSorted()
      .map((name) => `/${name}`)
    const version = createHash('sha256').update(files.join('\n')).digest('hex').slice(0, 16)
    const source = readFileSync(join(here, 'src/service-worker.js'), 'utf8')
      .replace("'__VERSION__'", JSON.stringify(version))
      .replace("['__FILES__']", JSON.stringify(files))
    this.emitFile({ type: 'asset', fileName: 'service-worker.js', source })
  },
}

/** Beside each file that is worth it, the same compressed: the daemon never does that while somebody waits. */
const compressed: Plugin = {
  name: 'compressed',
  writeBundle({ dir = '' }, bundle) {
    for (const name of Object.keys(bundle)) {
      const text = readFileSync(join(dir, name))
      if (!/\.(js|css|svg|html)$/.test(name) || text.length < 1024) continue
      writeFileSync(join(dir, `${name}.br`), brotliCompressSync(text, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }))
    }
  },
}

/** The page's own rules allow no code made of text, so zod need not try it: it must know before its first schema is made. */
const withoutEval: Plugin = {
  name: 'without-eval',
  transform: (code, id) =>
    id.endsWith('/zod/v4/core/core.js') ? `globalThis.__zod_globalConfig ??= { jitless: true };\n${code}` : null,
}

/** The page's own rules allow no styles in the page itself, which xterm writes: its style elements become sheets of the document's own,
 *  which go when they are removed, and its style attributes become properties. */
const withoutInlineStyles: Plugin = {
  name: 'without-inline-styles',
  transform(code, id) {
    if (!/@xterm\/xterm\/lib\/xterm\.m?js$/.test(id)) return null
    const attributes = /(\w+)\.setAttribute\("style",(`[^`]*`)\)/g
    const elements = /[\w.$]+\.createElement\("style"\)/g
    if (!attributes.test(code) || !elements.test(code))
      throw new Error('xterm no longer writes its styles as it did: see what is still needed')
    return sheetElement + code.replaceAll(attributes, '$1.style.cssText=$2').replaceAll(elements, 'sheetElementOfOurs()')
  },
}
const sheetElement = `function sheetElementOfOurs() {
  const element = document.createElement('span'), sheet = new CSSStyleSheet(), remove = element.remove.bind(element)
  document.adoptedStyleSheets.push(sheet)
  Object.defineProperty(element, 'textContent', { get: () => '', set: (text) => sheet.replaceSync(text) })
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet)
    remove()
  }
  return element
}
`

export default defineConfig({
  root: here,
  logLevel: 'warn',
  plugins: [react(), tailwindcss(), withoutEval, withoutInlineStyles, serviceWorker, compressed],
  build: {
    outDir: join(here, '../../dist/web'),
    emptyOutDir: true,
    // The door reads in it which files a screen consists of.
    manifest: true,
    target: 'es2023',
    // The page's own rules allow no data: URLs.
    assetsInlineLimit: 0,
    // A grammar that is fetched when it is needed may be large.
    chunkSizeWarningLimit: 1000,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      // Building a schema does nothing besides: one that a screen does not use is left out of it.
      treeshake: { manualPureFunctions: ['z'] },
      output: {
        // Pictures of a few hundred bytes, which would otherwise be fetched one by one.
        codeSplitting: { groups: [{ name: 'icons', test: /lucide-react/ }] },
        chunkFileNames: (chunk) =>
          chunk.moduleIds.some((id) => /@shikijs\/langs/.test(id)) ? 'assets/lang-[name]-[hash].js' : 'assets/[name]-[hash].js',
      },
    },
  },
})
