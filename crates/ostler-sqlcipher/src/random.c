/* The only source of randomness for SQLCipher's initialisation vectors and salts: the kernel.
 * LibTomCrypt's own `rng_get_bytes` falls back to measuring the clock; this one returns 0, and SQLCipher then refuses
 * to open the database. */
#include <unistd.h>
#if defined(__APPLE__)
#include <sys/random.h>
#endif

unsigned long rng_get_bytes(unsigned char *out, unsigned long length, void (*callback)(void)) {
  (void)callback;
  /* `getentropy` takes 256 bytes at most; SQLCipher asks for 32. */
  if (length > 256 || getentropy(out, length) != 0) {
    return 0;
  }
  return length;
}
