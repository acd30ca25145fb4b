package giveway.yarn;

import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * One message on the wire, as docs/yarn.md describes it: a length, a letter that says what it is, and its fields. Integers are big-endian, text is a
 * length of two bytes and UTF-8.
 */
final class Frame {
  /** Version of the protocol. Both sides must speak the same one. */
  static final int VERSION = 1;
  /** A longer frame is taken for nonsense, before any room is made for it. */
  static final int BYTES_MAX = 4 << 20;
  private static final int TEXT_BYTES_MAX = 65535;

  private final ByteArrayOutputStream bytes = new ByteArrayOutputStream(64);

  private Frame(char what) {
    number(1, what);
  }

  static Frame of(char what) {
    return new Frame(what);
  }

  /** Appends an integer of so many bytes. */
  Frame number(int width, long value) {
    for (int shift = 8 * (width - 1); shift >= 0; shift -= 8) {
      bytes.write((int) (value >>> shift));
    }
    return this;
  }

  /** Appends text; what is too long for the wire is cut. */
  Frame text(String text) {
    byte[] utf8 = (text == null ? "" : text).getBytes(StandardCharsets.UTF_8);
    int length = Math.min(utf8.length, TEXT_BYTES_MAX);
    number(2, length);
    bytes.write(utf8, 0, length);
    return this;
  }

  /** The content, ready for {@link #write}. */
  byte[] content() {
    return bytes.toByteArray();
  }

  /** Writes a frame of this content. */
  static void write(OutputStream to, byte[] content) throws IOException {
    DataOutputStream out = new DataOutputStream(to);
    out.writeInt(content.length);
    out.write(content);
  }

  /** Reads one frame's content. It returns null where the other side has closed properly, between two frames. */
  static byte[] read(DataInputStream from) throws IOException {
    int first = from.read();
    if (first < 0) {
      return null;
    }
    long length = (long) first << 24 | from.readUnsignedByte() << 16 | from.readUnsignedShort();
    if (length < 1 || length > BYTES_MAX) {
      throw new IOException("a frame of " + length + " bytes is none; at most " + BYTES_MAX + " make sense");
    }
    byte[] content = new byte[(int) length];
    from.readFully(content);
    return content;
  }

  /** A content's fields, read one after the other. */
  static final class Fields {
    private final byte[] content;
    private int at = 1;

    Fields(byte[] content) {
      this.content = content;
    }

    char what() {
      return (char) content[0];
    }

    long number(int width) throws IOException {
      need(width);
      long value = 0;
      for (int i = 0; i < width; i++) {
        value = value << 8 | content[at++] & 0xff;
      }
      return value;
    }

    String text() throws IOException {
      int length = (int) number(2);
      need(length);
      at += length;
      return new String(Arrays.copyOfRange(content, at - length, at), StandardCharsets.UTF_8);
    }

    private void need(int length) throws IOException {
      if (content.length - at < length) {
        throw new IOException("a frame `" + what() + "` ends within a field");
      }
    }
  }
}
