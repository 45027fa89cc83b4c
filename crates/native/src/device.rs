//! The device that a cluster runs on.

use crate::error::last_refusal;
use crate::library::Library;
use crate::objects::IbvDevice;
use doorbell_abi::ibv_device;
use doorbell_verbs::VerbsError;
use std::ffi::{CStr, c_int};
use std::path::Path;
use std::sync::Arc;
use thiserror::Error;

/// A device of an opened libibverbs.
#[derive(Clone)]
pub struct NativeDevice {
    library: Arc<Library>,
    index: usize,
    name: String,
}

/// The reason why no device can be used.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The library cannot be loaded, or lacks a function.
    #[error("{library} cannot be used as libibverbs: {}", said(cause))]
    Library {
        /// The library's path or name.
        library: String,
        /// Error of the loader.
        cause: libloading::Error,
    },
    /// The library cannot list its devices.
    #[error(transparent)]
    List(VerbsError),
    /// The machine has too few devices.
    #[error("no RDMA device with index {index}: libibverbs finds {count}")]
    NoDevice {
        /// The requested index.
        index: usize,
        /// The number of devices.
        count: usize,
    },
}

/// The loader's message, which is the source of the error.
fn said(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

impl NativeDevice {
    /// Device `index`, counted from 0, of the libibverbs at `library`. Without a path, the loader searches
    /// for `libibverbs.so.1`.
    ///
    /// # Safety
    /// The library is libibverbs of rdma-core 44 or later, or has equal functions and behaviour. Its use of
    /// memory cannot be checked.
    pub unsafe fn open(library: Option<&Path>, index: usize) -> Result<NativeDevice, OpenError> {
        let path = library.unwrap_or(Path::new("libibverbs.so.1"));
        // SAFETY: The caller guarantees that the library is valid.
        let opened = unsafe { Library::open(path) };
        let library = Arc::new(
            opened.map_err(|cause| OpenError::Library { library: path.display().to_string(), cause })?,
        );
        let list = DeviceList::new(&library).map_err(OpenError::List)?;
        let device = list.get(index).ok_or(OpenError::NoDevice { index, count: list.count })?;
        // SAFETY: The device is an entry of the list, which is live. Its name is a string that lives as long.
        let name = unsafe { CStr::from_ptr((library.ibv_get_device_name)(device)) };
        let name = name.to_string_lossy().into_owned();
        Ok(NativeDevice { library: library.clone(), index, name })
    }

    /// Name of the device, such as `mlx5_0`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Opens a new context of this device.
    pub(crate) fn context(&self) -> Result<IbvDevice, VerbsError> {
        let list = DeviceList::new(&self.library)?;
        let device = list
            .get(self.index)
            .ok_or_else(|| VerbsError::NoDevice(format!("{} has disappeared", self.name)))?;
        // SAFETY: The device is an entry of the list, which is live.
        unsafe { IbvDevice::open(&self.library, device, &self.name) }
    }
}

/// A list of devices, freed on drop.
struct DeviceList<'l> {
    library: &'l Library,
    list: *mut *mut ibv_device,
    count: usize,
}

impl DeviceList<'_> {
    fn new(library: &Library) -> Result<DeviceList<'_>, VerbsError> {
        let mut count: c_int = 0;
        // SAFETY: The argument is only a place for the count.
        let list = unsafe { (library.ibv_get_device_list)(&mut count) };
        if list.is_null() {
            return Err(last_refusal("ibv_get_device_list"));
        }
        Ok(DeviceList { library, list, count: usize::try_from(count).unwrap_or(0) })
    }

    fn get(&self, index: usize) -> Option<*mut ibv_device> {
        // SAFETY: The list has `count` entries.
        (index < self.count).then(|| unsafe { *self.list.add(index) })
    }
}

impl Drop for DeviceList<'_> {
    fn drop(&mut self) {
        // SAFETY: The list is from ibv_get_device_list and is freed once.
        unsafe { (self.library.ibv_free_device_list)(self.list) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_named() {
        // SAFETY: Nothing is loaded.
        let refusal = unsafe { NativeDevice::open(Some(Path::new("/nonexistent/libibverbs.so.1")), 0) };
        let text = refusal.err().expect("there is no such file").to_string();
        assert!(text.starts_with("/nonexistent/libibverbs.so.1 cannot be used as libibverbs: "), "{text}");
        assert!(text.contains("No such file"), "{text}");
    }
}
