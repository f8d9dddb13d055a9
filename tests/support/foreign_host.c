/* Runs one function of a code image for another kind of processor, under an emulator of it.

   foreign_host FILE SIZE BASE FUNCTION CONTEXT SLOTS, numbers in hexadecimal: FILE is memory that belongs at BASE, in
   which the function, its context and its slots lie; it is mapped there and shared, so that whoever made the file sees
   what the function has written. Prints what the function returns. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

int main(int count, char **words) {
  if (count != 7) return 2;
  unsigned long at[5];
  for (int i = 0; i < 5; i++) at[i] = strtoul(words[i + 2], NULL, 16);
  int file = open(words[1], O_RDWR);
  void *base = mmap((void *)at[1], at[0], PROT_READ | PROT_WRITE | PROT_EXEC, MAP_SHARED | MAP_FIXED_NOREPLACE, file, 0);
  if (file < 0 || base != (void *)at[1]) {
    perror("the memory cannot be mapped where it belongs");
    return 3;
  }
  long (*function)(void *, void *) = (long (*)(void *, void *))at[2];
  printf("%ld\n", function((void *)at[3], (void *)at[4]));
  return 0;
}
