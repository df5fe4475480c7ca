/** Has Node keep what it compiles of a program, for the program's next start. What lies there is run: the folder is one that nobody else can
 *  write to. */
export const keepsCompiled = (folder: string) => ({ NODE_COMPILE_CACHE: `${folder}/compiled` })
